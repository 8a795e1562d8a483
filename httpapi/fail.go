package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/contract"
)

// fail answers a call that ended in an error.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return // answered, or cut
	}
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		s.refuse(c, routeProblem(c, routing))
		return
	}
	p := problemOf(err)
	if p.kind == internalError {
		s.cfg.Logger.Error("call failed", "method", c.Request().Method, "path", c.Path(),
			"id", requestID(c.Request()), "err", err)
	}
	s.refuse(c, p)
}

// routeProblem returns the problem for an error of the router.
func routeProblem(c echo.Context, err *echo.HTTPError) *problem {
	path := c.Request().URL.Path
	switch err.Code {
	case http.StatusMethodNotAllowed:
		allow := c.Response().Header().Get("Allow")
		if strings.Contains(allow, "GET") {
			allow += ", HEAD"
		}
		return &problem{kind: methodNotAllowed, detail: "it takes " + allow, allow: allow}
	case http.StatusNotFound:
		for prefix, field := range map[string]string{"/v1/tasks/": "id", "/v1/queues/": "queue"} {
			if strings.HasPrefix(path, prefix) {
				return &problem{kind: unknownRoute, field: field, limit: nameRule,
					detail: fmt.Sprintf("nothing is at %q; there is no slash in the name of a task or a queue", contract.Clip(path))}
			}
		}
		return &problem{kind: unknownRoute, detail: fmt.Sprintf("nothing is at %q", contract.Clip(path))}
	}
	return &problem{kind: internalError, detail: "the node's log says more", committed: "unknown"}
}

const nameRule = "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}"
