package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// order is one command under construction. Its usual parts share one allocation.
type order struct {
	cmd      fsmpb.Command
	schedule plan
	instead  *plan // the or_schedule of a touch

	key       fsmpb.Key
	condition fsmpb.Condition
	asked     string // the idempotency key as the caller wrote it
	keyed     bool
	meaning   func() []byte // describes the call if its command depends on more than the call; nil: the command does
}

// plan is a schedule with its parts.
type plan struct {
	op      fsmpb.Command_Schedule
	msg     fsmpb.Schedule
	spec    fsmpb.Spec
	delayMs int64

	jitterMs int64
}

// link joins the parts and returns the message.
func (p *plan) link() *fsmpb.Schedule {
	p.op.Schedule = &p.msg
	p.msg.Spec = &p.spec
	return &p.msg
}

// setKey takes the idempotency key, 1 to 255 bytes.
func (o *order) setKey(name, key string) error {
	if err := checkKey(name, key); err != nil {
		return err
	}
	o.asked, o.keyed = key, true
	return nil
}

// finish completes the command: it applies the jitter and then hashes the key and the call, which needs all other
// parts.
func (o *order) finish() *fsmpb.Command {
	o.timed().spread(o.cmd.Namespace, o.cmd.Id)
	if c := &o.condition; c.Absent || c.Present || len(c.Revisions) > 0 {
		o.cmd.Condition = c
	}
	if o.keyed {
		o.key.Hash = keyHash(o.asked)
		if o.meaning != nil {
			o.key.Call = meaningHash(&o.cmd, o.meaning())
		} else {
			o.key.Call = callHash(&o.cmd, o.timed().jitterMs)
		}
		o.cmd.Key = &o.key
	}
	return &o.cmd
}

// timed returns the order's schedule: that of or_schedule, if there is one.
func (o *order) timed() *plan {
	if o.instead != nil {
		return o.instead
	}
	return &o.schedule
}

// arrival is the time when a call came in, from which delays count.
type arrival struct {
	at   time.Time
	sure bool // the node is sure of the time
}

// check refuses to count from an uncertain time, since such a task could be due at once.
func (a arrival) check() error {
	if a.sure {
		return nil
	}
	return &problem{kind: notReady, detail: "this node's clock has not been compared with the others' yet: it cannot " +
		"count from now", committed: "no", retryAfter: 1}
}

// spread moves the instant later by a part of the jitter that depends on the task's name only. So tasks of one instant
// are spread over the window, and a repeated call gets the same instant. This happens before the commit, so the log has
// only the result.
func (p *plan) spread(namespace, id string) {
	if p.jitterMs > 0 {
		p.msg.FireAtMs += int64(jitterHash(namespace, id) % uint64(p.jitterMs+1))
	}
}

// jitterHash differs from the hash of the slots, so that tasks of one slot do not share an offset.
func jitterHash(namespace, id string) uint64 {
	if namespace == "" {
		namespace = task.DefaultNamespace
	}
	var d xxhash.Digest
	d.ResetWithSeed(jitterSeed)
	_, _ = d.WriteString(namespace) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(id)
	return d.Sum64()
}

const jitterSeed = 0x6a69747465720001 // "jitter", 1

// nobodysRevision is a revision that no task has: revisions begin with 1.
const nobodysRevision = 0

func appendETag(b []byte, revision uint64) []byte {
	return append(strconv.AppendUint(append(b, '"'), revision, 10), '"')
}

// takeHeaders reads the conditions and the idempotency key of a single call.
func (o *order) takeHeaders(h http.Header) error {
	if values := h["If-Match"]; len(values) > 0 {
		if err := parseIfMatch("If-Match", strings.Join(values, ","), &o.condition); err != nil {
			return err
		}
	}
	if values := h["If-None-Match"]; len(values) > 0 {
		if err := parseIfNoneMatch("If-None-Match", strings.Join(values, ","), &o.condition); err != nil {
			return err
		}
	}
	return o.takeKey(h)
}

func (o *order) takeKey(h http.Header) error {
	switch values := h[keyHeader]; len(values) {
	case 0:
		return nil
	case 1:
		return o.setKey(keyHeader, values[0])
	}
	return contract.Twice(keyHeader)
}

// parseIfMatch reads "*", or entity tags separated by commas (RFC 9110, section 13.1.1). It also accepts a revision
// without quotes. A tag that is weak or no revision matches no task.
func parseIfMatch(field, text string, c *fsmpb.Condition) error {
	if strings.Trim(text, " \t") == "*" {
		c.Present = true
		return nil
	}
	for tag := range strings.SplitSeq(text, ",") {
		revision, ok := parseETag(strings.Trim(tag, " \t"))
		if !ok {
			return &task.FieldError{Field: field, Detail: `must be * or entity tags as ETag gives them, like "8841" in quotes`}
		}
		c.Revisions = append(c.Revisions, revision)
	}
	return nil
}

func parseETag(tag string) (revision uint64, ok bool) {
	if n, err := strconv.ParseUint(tag, 10, 64); err == nil {
		return n, true
	}
	strong, weak := strings.CutPrefix(tag, "W/")
	if len(strong) < 2 || strong[0] != '"' || strong[len(strong)-1] != '"' {
		return 0, false
	}
	n, err := strconv.ParseUint(strong[1:len(strong)-1], 10, 64)
	if err != nil || weak {
		return nobodysRevision, true
	}
	return n, true
}

func parseIfNoneMatch(field, text string, c *fsmpb.Condition) error {
	if strings.Trim(text, " \t") != "*" {
		return &task.FieldError{Field: field, Detail: "must be *"}
	}
	c.Absent = true
	return nil
}

// ifMatch reads a batch line's if_match: a string as in the header, or a revision as a number.
func ifMatch(r *contract.Reader, c *fsmpb.Condition) error {
	const name = "if_match"
	switch first := r.Peek(); {
	case first == '"':
		text, err := r.Text(name)
		if err != nil {
			return err
		}
		return parseIfMatch(name, text, c)
	case '0' <= first && first <= '9':
		raw, err := r.Value()
		if err != nil {
			return err
		}
		return parseIfMatch(name, string(raw), c)
	}
	return r.WrongType(name, "a string or a revision")
}

func ifNoneMatch(r *contract.Reader, c *fsmpb.Condition) error {
	text, err := r.Text("if_none_match")
	if err != nil {
		return err
	}
	return parseIfNoneMatch("if_none_match", text, c)
}
