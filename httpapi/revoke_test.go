package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
)

// changing is an Access whose only caller loses its key or its grants, or cannot be judged.
type changing struct {
	answer atomic.Pointer[func() (*access.Caller, error)]
}

func (a *changing) Caller(context.Context, access.Credentials) (*access.Caller, error) {
	return (*a.answer.Load())()
}

func (a *changing) to(caller *access.Caller, err error) {
	answer := func() (*access.Caller, error) { return caller, err }
	a.answer.Store(&answer)
}

// lastingCall is a call under way.
type lastingCall struct {
	w     *httptest.ResponseRecorder
	done  chan struct{}
	cut   bool // the connection was cut
	ended time.Time
}

func (h *harness) last(path, body string) *lastingCall {
	l := &lastingCall{w: httptest.NewRecorder(), done: make(chan struct{})}
	in, _ := io.Pipe()
	r := httptest.NewRequest("POST", path, in)
	if body != "" {
		r = httptest.NewRequest("POST", path, strings.NewReader(body))
	}
	r.Header.Set("Content-Type", ndjsonType)
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	go func() {
		defer close(l.done)
		defer func() {
			what := recover()
			l.cut, l.ended = what != nil, time.Now()
			if what != nil && what != http.ErrAbortHandler {
				panic(what)
			}
			_ = in.Close() // as the HTTP server does
		}()
		h.server.ServeHTTP(closing{l.w, in}, r)
	}()
	return l
}

// closing is a response writer whose read deadline ends the request's body, as that of a connection does.
type closing struct {
	*httptest.ResponseRecorder
	body *io.PipeReader
}

func (c closing) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		return c.body.Close()
	}
	return nil
}

// TestRevokedCallersAreCutOff checks that streams, batches and waiting leases end within a second after their caller
// may not make them any more, and stay while the node cannot judge the caller.
func TestRevokedCallersAreCutOff(t *testing.T) {
	unknown := &access.Refusal{Kind: access.Unknown, Detail: "the key is wrong, expired or revoked"}
	for name, change := range map[string]struct {
		caller *access.Caller
		err    error
		status int
	}{
		"revoked":       {nil, unknown, 401},
		"flooded":       {nil, &access.Refusal{Kind: access.TooMany}, 429},
		"other grants":  {testCaller("read@a"), nil, 403},
		"no namespace":  {testCaller("consume@b schedule@b"), nil, 404},
		"another queue": {testCaller("consume@a queues=other schedule@a queues=other"), nil, 403},
		"not judged":    {nil, &access.Refusal{Kind: access.Unavailable}, 0},
		"broken":        {nil, errors.New("the issuer does not answer"), 0},
		"the same":      {testCaller("consume@a schedule@a"), nil, 0},
	} {
		for path, body := range map[string]string{
			"/v1/batch": "", "/v1/queues/q/stream": "", "/v1/queues/q/lease": `{"wait":"1m"}`,
		} {
			synctest.Test(t, func(t *testing.T) {
				a := new(changing)
				a.to(testCaller("consume@a schedule@a"), nil)
				h := newHarness(t, func(c *Config) { c.Access = a })
				l := h.last(path, body)
				time.Sleep(1500 * time.Millisecond) // of the bubble's clock
				a.to(change.caller, change.err)
				began := time.Now()
				time.Sleep(3 * time.Second)
				select {
				case <-l.done:
				default:
					if change.status != 0 && !(name == "another queue" && path == "/v1/batch") {
						t.Errorf("%s: %s goes on", name, path)
					}
					h.server.close()
					a.to(nil, unknown)
					<-l.done
					return
				}
				if took := l.ended.Sub(began); change.status == 0 || took > recheckEvery {
					t.Errorf("%s: %s has ended after %v", name, path, took)
				}
				if body != "" && l.w.Code != change.status || body == "" && !l.cut {
					t.Errorf("%s: %s: %d %s, cut %v", name, path, l.w.Code, l.w.Body, l.cut)
				}
			})
		}
	}
}
