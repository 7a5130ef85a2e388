package api

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// index is what a person sees, or a client that asks whether anybody is there.
func (s *server) index(c *gin.Context) {
	c.String(http.StatusOK, "Lilypad is running. The OpenAI API is at /v1, readiness at /readyz.\n")
}

// livez says that the supervisor answers.
func (s *server) livez(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"status": "ok"})
}

// readyz says whether a request would be served now.
func (s *server) readyz(c *gin.Context) {
	c.Header("Cache-Control", "no-cache")
	h := s.Health()
	if s.Stop.Err() != nil {
		h.Ready, h.Reason = false, "stopping"
	}
	if h.Ready {
		c.JSON(http.StatusOK, gin.H{"status": "ready", "incarnation": h.Incarnation})
		return
	}
	body := gin.H{"status": "not ready", "reason": h.Reason, "incarnation": h.Incarnation}
	if h.Total > 0 {
		body["load"] = gin.H{"done_bytes": h.Done, "total_bytes": h.Total}
	}
	c.Header("retry-after", "1")
	c.JSON(http.StatusServiceUnavailable, body)
}
