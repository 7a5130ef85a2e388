package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"lilypad/protocol"
	"lilypad/supervisor/generate"
	"lilypad/supervisor/openai"
	"lilypad/supervisor/process"
)

// alias is the model id that always means the loaded model.
const alias = "lilypad"

// listModels tells the one model that is loaded.
func (s *server) listModels(c *gin.Context) {
	if info, ok := s.loaded(c); ok {
		c.JSON(http.StatusOK, openai.ModelList{Object: "list", Data: []openai.Model{s.model(info)}})
	}
}

// getModel tells the loaded model by its own id or by the alias.
func (s *server) getModel(c *gin.Context) {
	info, ok := s.loaded(c)
	if !ok {
		return
	}
	if bad := checkModel(c.Param("id"), info); bad != nil {
		fail(c, bad)
		return
	}
	c.JSON(http.StatusOK, s.model(info))
}

func (s *server) model(info protocol.ModelInfo) openai.Model {
	return openai.Model{ID: info.Name, Object: "model", Created: s.Started.Unix(), OwnedBy: "lilypad", Context: info.Context}
}

// loaded waits a while for the model, or answers with an error.
func (s *server) loaded(c *gin.Context) (info protocol.ModelInfo, ok bool) {
	err := generate.Call(c.Request.Context(), s.Workers, s.StartWait, func(_ context.Context, w *process.Worker) error {
		info = w.Info
		return nil
	})
	if err != nil {
		s.failWith(c, err)
		return info, false
	}
	return info, true
}

// checkModel returns a 404 if id is none of the loaded model's.
func checkModel(id string, info protocol.ModelInfo) *openai.Error {
	if id == "" || id == alias || id == info.Name {
		return nil
	}
	param := "model"
	return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalid, Code: "model_not_found", Param: &param,
		Message: fmt.Sprintf("The model %q is not loaded; use %q, or %q for whichever is loaded.", openai.Shorten(id), info.Name, alias)}
}
