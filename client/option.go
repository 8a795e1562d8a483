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

// Option changes a setting of one call.
type Option func(*options)

type options struct {
	key         string // empty: a new one
	ifMatch     string
	ifNoneMatch string
	whole       *Task
}

// WithKey sets the call's idempotency key, 1 to 255 bytes. A program that stores the key before the call can repeat the
// call safely even after a restart, as long as the task or its tombstone lives and fewer than two other calls have
// changed it. Without this option each call gets a new key.
func WithKey(key string) Option { return func(o *options) { o.key = key } }

// IfRevision makes the call only if the task, or the schedule, still has this revision. The error is ErrPrecondition
// otherwise.
func IfRevision(revision uint64) Option {
	return func(o *options) { o.ifMatch = strconv.FormatUint(revision, 10) }
}

// IfAbsent makes the call only if there is no such task, tombstones included, or no such schedule. Otherwise the error
// is ErrPrecondition, and Error.Task or Error.Schedule holds the existing one. The option schedules once, as long as
// the task or its tombstone lives.
func IfAbsent() Option { return func(o *options) { o.ifNoneMatch = "*" } }

// ReturnTask makes Schedule, Touch and FireNow store the task after the call in *task. Cancel stores only ID, Outcome
// and Revision, since the service answers no more. A call with this option is a request of its own. In a batch it has
// no effect.
func ReturnTask(task *Task) Option { return func(o *options) { o.whole = task } }

func gather(opts []Option) options {
	if len(opts) == 0 {
		return options{} // the literal does not escape
	}
	o := new(options)
	for _, opt := range opts {
		opt(o)
	}
	return *o
}

// header returns the header of a request of its own.
func (c *conn) header(o *options) http.Header {
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

// appendHead appends the beginning of a batch line.
func (c *conn) appendHead(b []byte, verb, id string, o *options) []byte {
	begin := len(b)
	b = contract.AppendText(b, contract.Op, verb)
	b[begin] = '{' // other members and the end follow
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

// keys makes unique idempotency keys: a random prefix for each client, and a number.
type keys struct {
	prefix string
	last   atomic.Uint64
}

func newKeys() *keys {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return &keys{prefix: base64.RawURLEncoding.EncodeToString(b[:])}
}

func (k *keys) append(b []byte) []byte {
	return strconv.AppendUint(append(b, k.prefix...), k.last.Add(1), 36)
}

func (k *keys) next() string {
	var room [32]byte
	return string(k.append(room[:0]))
}

// newID returns an id of 128 random bits, in the form that the service uses.
func newID() string { return "t-" + strings.ToLower(rand.Text()) }
