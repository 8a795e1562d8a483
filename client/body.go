package client

import (
	"io"
	"net/http"
	"sync"
)

// body is the reusable buffer of a request's bytes. net/http may read them even after it has returned an answer or an
// error, until it closes the reader. The bytes are free only then.
type body struct {
	c *Client

	mu   sync.Mutex
	data []byte // not changed while a reader is open
	open int    // readers
}

// keptBody is the largest buffer that is reused, in bytes. The collector takes larger ones.
const keptBody = 2 * maxLineBytes

func (c *Client) newBody() *body {
	if b, ok := c.bodies.Get().(*body); ok {
		return b
	}
	return &body{c: c}
}

// free ends the owner's use of the body. A body with an open reader is not reused.
func (b *body) free() {
	b.mu.Lock()
	idle := b.open == 0
	b.mu.Unlock()
	if idle && cap(b.data) <= keptBody {
		b.data = b.data[:0]
		b.c.bodies.Put(b)
	}
}

func (b *body) reader() io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	return &bodyReader{b: b}
}

// bodyReader reads a body once.
type bodyReader struct {
	b      *body
	pos    int
	closed bool // guarded by the body's mutex
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if r.pos == len(r.b.data) {
		return 0, io.EOF
	}
	n := copy(p, r.b.data[r.pos:])
	r.pos += n
	return n, nil
}

func (r *bodyReader) Close() error {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.b.open--
	}
	return nil
}
