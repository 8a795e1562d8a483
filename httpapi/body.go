package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/contract"
)

const (
	jsonType   = "application/json"
	mergeType  = "application/merge-patch+json"
	ndjsonType = "application/x-ndjson"

	freeBody = 16 << 10 // bodies up to this size are not counted against the memory of all calls
)

// The types of the bodies of most calls, and of patches.
var (
	jsonBodies  = []string{jsonType}
	patchBodies = []string{jsonType, mergeType}
)

// checkType refuses a body whose declared type is not one of the accepted types.
func checkType(h http.Header, accepted ...string) error {
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &problem{kind: unsupportedMedia, field: "Content-Encoding", detail: "must be absent: bodies are not decoded"}
	}
	given := h.Get("Content-Type")
	if slices.Contains(accepted, given) {
		return nil
	}
	base, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	if err == nil && slices.Contains(accepted, base) && (charset == "" || strings.EqualFold(charset, "utf-8")) {
		return nil
	}
	detail := fmt.Sprintf("is %q and must be %s", contract.Clip(given), strings.Join(accepted, " or "))
	if given == "" {
		detail = "is absent and must be " + strings.Join(accepted, " or ")
	}
	if strings.HasPrefix(base, "application/x-www-form-urlencoded") || strings.HasPrefix(base, "multipart/form-data") {
		detail += "; with curl, send JSON by --json instead of --data (curl --json '{…}')"
	}
	return &problem{kind: unsupportedMedia, field: "Content-Type", detail: detail}
}

// binder makes echo read bodies by the contract, and not by fields' tags. All bodies of single calls go through it.
type binder struct{ s *Server }

// Bind fills a *body. It refuses any other type.
func (b binder) Bind(i any, c echo.Context) error {
	into, ok := i.(*body)
	if !ok {
		return fmt.Errorf("httpapi: a body is not read into a %T", i)
	}
	return b.s.readBody(c, into)
}

// bind reads the body of a single call. The caller must release the body, even after an error.
func bind(c echo.Context, limit int, types ...string) (*body, error) {
	b, cl := &body{limit: limit, types: types}, callOf(c)
	b.memory.Name = cl.sharer() // echo's Bind passes on its own context, without the caller
	err := c.Bind(b)
	if cl.audited != nil {
		cl.audited.noteFields(b.data)
	}
	return b, err
}

// body is a request's body in memory.
type body struct {
	data   []byte
	limit  int
	types  []string // accepted
	memory admission.Part
	held   int
}

func (b *body) release() {
	if b.held > 0 {
		b.memory.Give(b.held)
	}
}

// readBody reads the body of a single call within its limits of type, size, time and memory. An empty body has no type.
// After reading to the end, it replaces the request's own body by an empty one, so that a later refusal knows that no
// bytes are left on the wire.
//
// echo's BodyLimit is not used: its refusal names no limit, and does not reach a client that is still sending.
func (s *Server) readBody(c echo.Context, b *body) error {
	r := c.Request()
	b.memory.Pool = s.memory
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	if r.ContentLength > int64(b.limit) {
		return b.tooLarge()
	}
	if err := checkType(r.Header, b.types...); err != nil {
		return s.unlessEmpty(c, err)
	}
	return s.fill(c, b)
}

// memoryOf returns the part of the memory that the namespace of a call may take.
func (s *core) memoryOf(c echo.Context) admission.Part {
	return admission.Part{Pool: s.memory, Name: callOf(c).sharer()}
}

// unlessEmpty accepts a chunked body of the wrong type if it turns out to be empty.
func (s *Server) unlessEmpty(c echo.Context, refusal error) error {
	if c.Request().ContentLength > 0 {
		return refusal
	}
	s.readWithin(c, s.cfg.BodyTimeout)
	var first [1]byte
	if n, err := io.ReadFull(c.Request().Body, first[:]); n == 0 && err == io.EOF {
		c.Request().Body = http.NoBody
		return nil
	}
	return refusal
}

func (s *Server) fill(c echo.Context, b *body) error {
	r := c.Request()
	s.readWithin(c, s.cfg.BodyTimeout)
	size := 4 << 10
	if r.ContentLength > 0 {
		size = int(min(r.ContentLength, freeBody-1)) + 1 // one more byte shows the end without growing
	}
	b.data = make([]byte, 0, size)
	for {
		if len(b.data) == cap(b.data) {
			if err := b.grow(); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch {
		case len(b.data) > b.limit:
			return b.tooLarge()
		case err == io.EOF:
			r.Body = http.NoBody
			return nil
		case err != nil:
			return s.bodyBroken(err)
		}
	}
}

// grow doubles the buffer, as long as all calls together stay within their memory.
func (b *body) grow() error {
	size := min(2*cap(b.data), b.limit+1)
	if size > freeBody {
		if !b.memory.Take(size - b.held) {
			return &problem{kind: overloaded, detail: "other bodies take all the memory for them", retryAfter: 1}
		}
		b.held = size
	}
	b.data = append(make([]byte, 0, size), b.data...)
	return nil
}

func (b *body) tooLarge() error {
	return &problem{kind: tooLarge, detail: "the body is too large", limit: fmt.Sprintf("%d bytes", b.limit)}
}

func (s *Server) bodyBroken(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{kind: bodyTimeout, detail: "the body did not end in time", limit: s.cfg.BodyTimeout.String()}
	}
	return &problem{kind: malformedJSON, detail: "the body broke off before its end"}
}

// readWithin bounds the time for the rest of the body. The server lifts the bound at the body's end.
func (s *Server) readWithin(c echo.Context, d time.Duration) {
	at := time.Now().Add(d) // the socket's clock, not the injected one
	s.ignoreUnsupported(http.NewResponseController(c.Response().Writer).SetReadDeadline(at))
}

// These bound the part of a refused body that is read and discarded, so that its sender sees the answer.
const (
	lingerBytes = 64 << 20
	lingerOpen  = 8 << 20 // of a body of unknown length, which may be endless
	lingerTime  = 2 * time.Second
	lingerQuiet = 100 * time.Millisecond
)

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
