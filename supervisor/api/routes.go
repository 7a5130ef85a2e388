package api

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"lilypad/supervisor/openai"
)

// routes is the whole route table. Every request passes the same five steps first: it gets an id, is logged when it ends,
// a panic becomes a 500, its body has a time limit, and pages of other origins are turned away.
func (s *server) routes() *gin.Engine {
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash = false
	r.ForwardedByClientIP = false
	r.Use(identify, s.logRequest, s.recoverPanic, s.limitRead, guard)

	read := func(path string, h gin.HandlerFunc) {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	read("/", s.index)
	read("/livez", s.livez)
	read("/readyz", s.readyz)
	read("/v1/models", s.listModels)
	read("/v1/models/:id", s.getModel)
	r.POST("/v1/chat/completions", s.chatCompletions)

	r.NoRoute(func(c *gin.Context) {
		fail(c, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalid, Code: "unknown_url",
			Message: "There is no " + c.Request.Method + " " + c.Request.URL.Path + " here. The OpenAI API begins at /v1."})
	})
	r.NoMethod(func(c *gin.Context) {
		fail(c, &openai.Error{Status: http.StatusMethodNotAllowed, Type: openai.TypeInvalid, Code: "method_not_allowed",
			Message: c.Request.URL.Path + " does not take " + c.Request.Method + ", but " + c.Writer.Header().Get("Allow") + "."})
	})
	return r
}
