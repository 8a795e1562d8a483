// Package inside carries HTTP requests to a handler of the same process. The ports for other protocols so call the HTTP
// API of their own node as any client does, and its rules for keys, namespaces, quotas, limits and the audit log hold
// for them, too.
//
// Why not a connection to the node's own address: it would count among those of callers, need the name in the node's
// certificate, and fail while the descriptors are used up.
package inside

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Transport makes requests by calling a handler. It is an http.RoundTripper.
type Transport struct {
	Handler http.Handler
	From    string               // the address of the caller, as the audit log shows it
	TLS     *tls.ConnectionState // of the caller; nil: none
}

// errCut means that the handler did not end its answer.
var errCut = errors.New("the answer was cut")

// RoundTrip returns the whole answer of the handler. It returns when the handler does, which ends with the request's
// context. A panic of the handler ends this call alone, as in an HTTP server.
func (t *Transport) RoundTrip(given *http.Request) (response *http.Response, err error) {
	req := *given
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	req.RequestURI, req.RemoteAddr, req.TLS = given.URL.RequestURI(), t.From, t.TLS
	if req.Body == nil {
		req.Body = http.NoBody
	}
	a := &answer{header: http.Header{}}
	defer func() {
		err = errors.Join(err, req.Body.Close())
		if cause := recover(); cause != nil {
			response, err = nil, fmt.Errorf("%w: %v", errCut, cause)
		}
	}()
	t.Handler.ServeHTTP(a, &req)
	a.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: req.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: given,
	}, nil
}

// answer keeps the answer of a handler.
type answer struct {
	header http.Header
	status int // 0: not written
	body   bytes.Buffer
}

// Header returns the header of the answer.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the first status that ends an answer.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write appends to the body.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// Flush does nothing: the answer is read once it is whole.
func (*answer) Flush() {}
