package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// command is a command under construction. Its usual parts share one allocation.
type command struct {
	msg        fsmpb.Command
	schedule   plan
	orSchedule *plan // of a touch; nil: none

	key       fsmpb.Key
	condition fsmpb.Condition
	keyText   string // the idempotency key as the caller wrote it
	hasKey    bool
	describe  func() []byte // describes a call whose command depends on more than the call; nil: the command does
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
func (c *command) setKey(name, key string) error {
	if err := checkKey(name, key); err != nil {
		return err
	}
	c.keyText, c.hasKey = key, true
	return nil
}

// finish completes the command: it applies the jitter and then hashes the key and the call, which needs all other
// parts.
func (c *command) finish() *fsmpb.Command {
	c.plan().spread(c.msg.Namespace, c.msg.Id)
	if condition := &c.condition; condition.Absent || condition.Present || len(condition.Revisions) > 0 {
		c.msg.Condition = condition
	}
	if c.hasKey {
		c.key.Hash = keyHash(c.keyText)
		if c.describe != nil {
			c.key.Call = describedHash(&c.msg, c.describe())
		} else {
			c.key.Call = callHash(&c.msg, c.plan().jitterMs)
		}
		c.msg.Key = &c.key
	}
	return &c.msg
}

// plan returns the command's schedule: that of or_schedule, if there is one.
func (c *command) plan() *plan {
	if c.orSchedule != nil {
		return c.orSchedule
	}
	return &c.schedule
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

// etag returns the header ETag of a revision.
func etag(revision uint64) []string {
	var room [22]byte
	return []string{string(append(strconv.AppendUint(append(room[:0], '"'), revision, 10), '"'))}
}

// takeHeaders reads the conditions and the idempotency key of a single call.
func (c *command) takeHeaders(h http.Header) error {
	if values := h["If-Match"]; len(values) > 0 {
		if err := parseIfMatch("If-Match", strings.Join(values, ","), &c.condition); err != nil {
			return err
		}
	}
	if values := h["If-None-Match"]; len(values) > 0 {
		if err := parseIfNoneMatch("If-None-Match", strings.Join(values, ","), &c.condition); err != nil {
			return err
		}
	}
	return c.takeKey(h)
}

func (c *command) takeKey(h http.Header) error {
	switch values := h[keyHeader]; len(values) {
	case 0:
		return nil
	case 1:
		return c.setKey(keyHeader, values[0])
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

const keyHeader = "Idempotency-Key"

func checkKey(name, key string) error {
	if key == "" || len(key) > task.MaxKeyBytes {
		return &task.FieldError{Field: name, Detail: fmt.Sprintf("is %d bytes long", len(key)),
			Limit: fmt.Sprintf("1 to %d bytes", task.MaxKeyBytes)}
	}
	return nil
}

func keyHash(key string) uint64 { return xxhash.Sum64String(key) }

// generatedID returns the id of a task that POST creates in a namespace, empty for the default one: derived from the
// key, so that a repeat finds the same task, or else random. Both have 128 bits, so that two never collide. A key makes
// another id in each namespace.
func generatedID(namespace, key string, hasKey bool) string {
	var raw [16]byte
	if hasKey {
		if namespace != "" {
			key = namespace + "\x00" + key
		}
		sum := sha256.Sum256([]byte(key))
		copy(raw[:], sum[:])
	} else {
		_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	}
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	return "t-" + base32.NewEncoding(alphabet).WithPadding(base32.NoPadding).EncodeToString(raw[:])
}

// callHash returns a hash of the encoding of a call's command, without the values that may differ between the call and
// its repeat. jitterMs is the jitter that the caller asked for.
//
// The numbers of the fields are part of the data format: keys outlive the process.
func callHash(c *fsmpb.Command, jitterMs int64) uint64 {
	defer setAside(c.Op)()
	call := encoded(&fsmpb.Command{Id: c.Id, Condition: c.Condition, Op: c.Op})
	if jitterMs > 0 {
		call = binary.LittleEndian.AppendUint64(call, uint64(jitterMs))
	}
	return xxhash.Sum64(call)
}

// describedHash returns the hash of a call about a task or a schedule whose command depends on more than the call.
func describedHash(c *fsmpb.Command, description []byte) uint64 {
	return xxhash.Sum64(append(encoded(&fsmpb.Command{Id: c.Id, Condition: c.Condition}), description...))
}

// encoded returns the encoding of a message, the same for equal messages.
func encoded(m interface{ MarshalVT() ([]byte, error) }) []byte {
	data, err := m.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("httpapi: a %T cannot be encoded: %v", m, err))
	}
	return data
}

// setAside clears the values of an operation that may differ between a call and its repeat: the time of receipt, the
// trace, a quota, and the instant that a delay leads to. It returns a function that puts them back.
func setAside(operation any) (restore func()) {
	switch op := operation.(type) {
	case *fsmpb.Command_Schedule:
		return setScheduleAside(op.Schedule)
	case *fsmpb.Command_Touch:
		touch, restoreInner := op.Touch, setScheduleAside(op.Touch.OrSchedule)
		received, most := touch.ReceivedAtMs, touch.MaxPayload
		touch.ReceivedAtMs, touch.MaxPayload = 0, 0
		return func() { touch.ReceivedAtMs, touch.MaxPayload = received, most; restoreInner() }
	case *fsmpb.Command_Patch:
		if at := op.Patch.FireAtMs; op.Patch.DelayMs != nil {
			op.Patch.FireAtMs = nil
			return func() { op.Patch.FireAtMs = at }
		}
	case *fsmpb.Command_SetSeries:
		received := op.SetSeries.ReceivedAtMs
		op.SetSeries.ReceivedAtMs = 0
		return func() { op.SetSeries.ReceivedAtMs = received }
	}
	return func() {}
}

func setScheduleAside(s *fsmpb.Schedule) (restore func()) {
	if s == nil {
		return func() {}
	}
	at, received, trace := s.FireAtMs, s.ReceivedAtMs, s.Spec.Traceparent
	if s.DelayMs != nil {
		s.FireAtMs = 0
	}
	s.ReceivedAtMs, s.Spec.Traceparent = 0, ""
	return func() { s.FireAtMs, s.ReceivedAtMs, s.Spec.Traceparent = at, received, trace }
}
