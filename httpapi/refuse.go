package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// These bound the part of a refused body that is read and discarded, so that its sender sees the answer.
const (
	lingerBytes = 64 << 20
	lingerOpen  = 8 << 20 // of a body of unknown length, which may be endless
	lingerTime  = 2 * time.Second
	lingerQuiet = 100 * time.Millisecond
)

// ignoreUnsupported drops the error of a writer without a connection, as in tests. It logs any other error for
// debugging.
func (s *Server) ignoreUnsupported(err error) { ignoreUnsupported(s.cfg.Logger, err) }

func ignoreUnsupported(log *slog.Logger, err error) {
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		log.Debug("connection control", "err", err)
	}
}

func (s *Server) refuse(c echo.Context, p *problem) {
	refuse(c.Response(), c.Request(), p, s.cfg.Logger)
}

// refuse answers with a problem. If a part of the body is unread, the answer goes out first, and over HTTP/1 the
// connection closes after it.
//
// refuse then reads and discards more of the body. Many clients read no answer before they have sent everything, and a
// closed connection or a reset stream would lose the answer. Without this step the HTTP server would read on before it
// answers, and a stream's body does not end.
func refuse(w http.ResponseWriter, r *http.Request, p *problem, log *slog.Logger) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		p.write(w)
		return
	}
	rc := http.NewResponseController(w)
	if r.ProtoMajor == 1 {
		ignoreUnsupported(log, rc.EnableFullDuplex())
		w.Header().Set("Connection", "close")
	}
	p.write(w)
	ignoreUnsupported(log, rc.Flush())
	if p.kind == bodyTimeout || r.Header.Get("Expect") != "" {
		return // no more bytes will come
	}
	if err := linger(rc, r, log); err != nil {
		log.Debug("rest of a refused body", "err", err)
	}
}

// linger reads on while more of the body comes, within bounds. Over HTTP/2 it also ends soon after the last byte, since
// the client has the whole answer only after the handler's end.
func linger(rc *http.ResponseController, r *http.Request, log *slog.Logger) error {
	end, patience := time.Now().Add(lingerTime), lingerTime
	if r.ProtoMajor > 1 {
		patience = lingerQuiet
	}
	buffer, left := make([]byte, 32<<10), lingerBytes
	if r.ContentLength < 0 {
		left = lingerOpen
	}
	for left > 0 {
		until := time.Now().Add(patience)
		if until.After(end) {
			until = end
		}
		ignoreUnsupported(log, rc.SetReadDeadline(until))
		n, err := r.Body.Read(buffer)
		left -= n
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
