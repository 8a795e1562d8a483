package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// request is a set of lines that are sent together. It belongs to the goroutine that carries it out, except over and
// slow, which the lane's mutex guards.
type request struct {
	lane     *lane
	lines    []*line // the first answered lines belong to their callers again
	shards   []*shard
	answered int
	body     *body
	well     bool // every line got a final answer

	over, slow bool
}

// newRequest takes the lines whose callers have not left. Lines of shards that travel alone now change to their lane.
func newRequest(l *lane, lines []*line) *request {
	r := &request{lane: l, lines: lines[:0], body: l.c.newBody(), shards: make([]*shard, 0, len(lines))}
	for _, one := range lines {
		if aside := l.aside(one); aside != nil {
			aside.queue(one)
			continue
		}
		if one.state.CompareAndSwap(lineWaiting, lineSent) {
			r.lines = append(r.lines, one)
			r.shards = append(r.shards, one.shard)
			r.body.data = append(r.body.data, one.data...)
		}
	}
	return r
}

// carryOut makes the request, and gives each line an answer.
func (r *request) carryOut() {
	slow := time.AfterFunc(slowAfter, func() { r.lane.overdue(r) })
	defer slow.Stop()
	at := r.lane.endpoint()
	r.well = true
	err := r.send(at)
	r.body.free()
	if err == nil {
		return
	}
	r.well = false
	r.lost(at, err)
	for _, l := range r.lines[r.answered:] {
		l.answer(Result{ID: l.id}, err)
	}
}

func (r *request) send(at *endpoint) error {
	c := r.lane.c
	return c.attempt(c.ctx, at.base, 0, r.read, func(ctx context.Context) (*http.Request, error) {
		req, err := c.newRequest(ctx, http.MethodPost, at.base+c.root+"/batch", r.body.reader())
		if err != nil {
			return nil, err
		}
		// The request has no key, so that net/http repeats it only if none of its bytes were sent.
		req.GetBody = func() (io.ReadCloser, error) { return r.body.reader(), nil }
		req.ContentLength = int64(len(r.body.data))
		req.Header["Content-Type"] = []string{ndjsonType}
		return req, nil
	})
}

// lost draws the conclusions of a failed request about its address and shards.
func (r *request) lost(at *endpoint, err error) {
	c := r.lane.c
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Status < 500 {
		return
	}
	if s := r.lane.shard; s != nil && errors.Is(err, errSilent) { // the shard may be silent, and not the node
		s.leader.CompareAndSwap(at, nil)
		c.directory.stale()
	} else {
		c.directory.failed(at)
	}
	c.nodes.after(at)
	r.distrust(r.answered)
}

// distrust makes the shards of the lines from i on travel alone.
func (r *request) distrust(i int) {
	for _, s := range r.shards[i:] {
		if s != nil {
			s.distrust(r.lane.c)
		}
	}
}

// read gives each line its answer.
func (r *request) read(a reply) error {
	r.lane.c.directory.noteVersion(a.header.Get("Belfry-Map"))
	in, ok := r.lane.c.readers.Get().(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(nil, resultsBuffer)
	}
	in.Reset(a.body)
	defer func() {
		in.Reset(nil)
		r.lane.c.readers.Put(in)
	}()
	return eachResult(in, r.lines, func(i int, result Result, refusal error) {
		if refusal != nil && retryable(refusal) {
			r.well = false
			if s := r.shards[i]; s != nil {
				s.distrust(r.lane.c)
			}
		}
		r.answered = i + 1
		r.lines[i].answer(result, refusal)
	})
}

// nextLine returns the next line with its end. The bytes are valid until the next read.
func nextLine(in *bufio.Reader) ([]byte, error) {
	text, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	long := append([]byte(nil), text...)
	for errors.Is(err, bufio.ErrBufferFull) {
		text, err = in.ReadSlice('\n')
		long = append(long, text...)
	}
	return long, err
}

// body is the reusable buffer of a request's bytes. net/http may read them even after it has returned an answer or an
// error, until it closes the reader. The bytes are free only then.
type body struct {
	c *conn

	mu   sync.Mutex
	data []byte // not changed while a reader is open
	open int    // readers
}

// keptBody is the largest buffer that is reused, in bytes. The collector takes larger ones.
const keptBody = 2 * maxLineBytes

func (c *conn) newBody() *body {
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
