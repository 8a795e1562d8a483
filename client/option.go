package client

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/belfryhq/belfry/internal/contract"
)

// Option changes one call.
type Option func(*options)

type options struct {
	key         string // empty: a fresh one
	ifMatch     string
	ifNoneMatch string
	whole       *Task
}

// WithKey sets the call's idempotency key, 1 to 255 bytes. A program that stores the key before it calls can repeat
// the call safely even after it was started anew, as long as the task or its tombstone lives and fewer than two other
// calls have changed it. Without it each call gets a fresh key.
func WithKey(key string) Option { return func(o *options) { o.key = key } }

// IfRevision makes the call only if the task still has this revision; else ErrPrecondition.
func IfRevision(revision uint64) Option {
	return func(o *options) { o.ifMatch = strconv.FormatUint(revision, 10) }
}

// IfAbsent makes the call only if there is no such task, tombstones included; else ErrPrecondition, with the task that
// is there in Error.Task. It schedules once, as long as the task or its tombstone lives.
func IfAbsent() Option { return func(o *options) { o.ifNoneMatch = "*" } }

// ReturnTask has Schedule, Touch and FireNow put the task as the call left it into *task, and Cancel its ID, Outcome
// and Revision, which is all that the service tells then. Such a call is a request of its own. In a batch it does
// nothing.
func ReturnTask(task *Task) Option { return func(o *options) { o.whole = task } }

func gather(opts []Option) options {
	if len(opts) == 0 {
		return options{} // which does not escape
	}
	o := new(options)
	for _, opt := range opts {
		opt(o)
	}
	return *o
}

// header is what a request of its own says in its head.
func (c *Client) header(o *options) http.Header {
	key := o.key
	if key == "" {
		key = c.keys.next()
	}
	h := http.Header{"Idempotency-Key": {key}}
	if o.ifMatch != "" {
		h.Set("If-Match", strconv.Quote(o.ifMatch))
	}
	if o.ifNoneMatch != "" {
		h.Set("If-None-Match", o.ifNoneMatch)
	}
	return h
}

// appendHead appends what every line of a batch begins with.
func (c *Client) appendHead(b []byte, verb, id string, o *options) []byte {
	begin := len(b)
	b = contract.AppendText(b, contract.Op, verb)
	b[begin] = '{' // the line's other members follow, and its end
	b = contract.AppendText(b, contract.ID, id)
	if o.key == "" {
		b = append(contract.AppendName(b, contract.Key), '"')
		b = append(c.keys.append(b), '"')
	} else {
		b = contract.AppendText(b, contract.Key, o.key)
	}
	b = contract.AppendTextIf(b, contract.IfMatch, o.ifMatch)
	return contract.AppendTextIf(b, contract.IfNoneMatch, o.ifNoneMatch)
}

// keys makes idempotency keys that no other call has: a random beginning for each client, and a number.
type keys struct {
	prefix string
	last   atomic.Uint64
}

func newKeys() *keys {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program rather
	return &keys{prefix: base64.RawURLEncoding.EncodeToString(b[:])}
}

func (k *keys) append(b []byte) []byte {
	return strconv.AppendUint(append(b, k.prefix...), k.last.Add(1), 36)
}

func (k *keys) next() string {
	var room [32]byte
	return string(k.append(room[:0]))
}

// newID is an id like those that the service makes, of 128 random bits.
func newID() string { return "t-" + strings.ToLower(rand.Text()) }
