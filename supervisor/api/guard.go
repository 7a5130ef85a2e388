package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"lilypad/supervisor/openai"
)

// guard turns away what a web page of another origin could send. The Host must be this machine by number or as localhost, so
// a name that was rebound to 127.0.0.1 gets nothing. A page may call only if it was itself served from this machine: it
// is then another local app, and gets the CORS headers that let it read the answer. Requests without Origin come from
// programs, or from a page's plain links and images, which the browser marks as cross-site.
func guard(c *gin.Context) {
	if !isLoopbackHost(c.Request.Host) {
		refuseOrigin(c, "The Host header must name this machine: use 127.0.0.1, [::1] or localhost.")
		return
	}
	origin := c.Request.Header.Get("Origin")
	if origin == "" {
		if c.Request.Header.Get("Sec-Fetch-Site") == "cross-site" {
			refuseOrigin(c, "Web pages of other origins may not use this server.")
		}
		return
	}
	if !isLoopbackOrigin(origin) {
		refuseOrigin(c, "Web pages of other origins may not use this server.")
		return
	}
	h := c.Writer.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "x-request-id, x-lilypad-served-by, x-lilypad-model, x-lilypad-incarnation, x-lilypad-cache, retry-after-ms")
	if c.Request.Method == http.MethodOptions && c.Request.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
		if wanted := c.Request.Header.Get("Access-Control-Request-Headers"); wanted != "" {
			h.Set("Access-Control-Allow-Headers", wanted)
		}
		c.AbortWithStatus(http.StatusNoContent)
	}
}

func refuseOrigin(c *gin.Context, message string) {
	fail(c, &openai.Error{Status: http.StatusForbidden, Type: openai.TypePermission, Code: "origin_not_allowed", Message: message})
}

// isLoopbackHost tells whether a Host header names this machine, with any port or none.
func isLoopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
		if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
			host = host[1 : n-1]
		}
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func isLoopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && isLoopbackHost(u.Host)
}
