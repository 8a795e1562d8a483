package httpapi

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// The bounds of answers that need no credentials. A caller who does not read them would hold their memory for the time
// of a long list, in any number of streams of HTTP/2.
const (
	briefTime  = 10 * time.Second // to take such an answer
	maxUnknown = 1024             // such answers under way over HTTP/2; over HTTP/1 each has a connection of its own
)

// briefly bounds the answers of a handler that needs no credentials.
func (s *Server) briefly(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		leave := s.brief(c)
		defer leave()
		return next(c)
	}
}

// brief bounds the time to take an answer, and the number of such answers at once. It cuts the call off if there is no
// place. The caller must call leave.
func (s *Server) brief(c echo.Context) (leave func()) {
	s.writeWithin(c, briefTime)
	r := c.Request()
	if r.ProtoMajor < 2 {
		return func() {}
	}
	left, refusal := s.unknown.take(holder{group: networkOf(r.RemoteAddr)})
	if refusal != nil {
		panic(http.ErrAbortHandler)
	}
	return func() {
		if c.Response().Committed { // the server would send the rest after the handler's end, and hold it until then
			s.ignoreUnsupported(http.NewResponseController(c.Response().Writer).Flush())
		}
		left()
	}
}
