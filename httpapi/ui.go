package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// uiPath begins the addresses of the dashboard.
const uiPath = "/ui/"

// addUI registers the dashboard. Its files are open, since they are the same for every caller; the page's calls carry
// the viewer's credentials. A browser that opens the node's address is led there.
func (s *Server) addUI() {
	if s.cfg.UI == nil {
		return
	}
	toUI := func(c echo.Context) error { return c.Redirect(http.StatusFound, uiPath) }
	s.echo.GET(uiPath+"*", s.briefly(echo.WrapHandler(s.cfg.UI)))
	s.echo.GET(strings.TrimSuffix(uiPath, "/"), toUI)
	s.echo.GET("/", func(c echo.Context) error {
		if !strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
			return echo.ErrNotFound
		}
		return toUI(c)
	})
}
