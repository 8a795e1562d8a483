package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/httpapi/origin"
)

// refuseForeign keeps out calls that a web page of another origin makes a browser send. Without credentials the node
// trusts every call that reaches it, and a browser carries a page's calls there. It also answers preflights of CORS.
func (s *Server) refuseForeign(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, h := c.Request(), c.Response().Header()
		s.cfg.Origins.Share(h, r)
		if p := foreignProblem(s.cfg.Origins, r); p != nil {
			return p
		}
		if s.cfg.Origins.Preflight(h, r) {
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}

// foreignProblem returns nil if the policy has nothing against a request. The result is no error, since a nil
// *problem in one would not be nil.
func foreignProblem(policy *origin.Policy, r *http.Request) *problem {
	refusal := policy.Check(r)
	if refusal == nil {
		return nil
	}
	return &problem{kind: foreignOrigin, field: refusal.Header, detail: refusal.Detail}
}
