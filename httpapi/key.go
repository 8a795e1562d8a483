package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

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
func generatedID(namespace, key string, keyed bool) string {
	var raw [16]byte
	if keyed {
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

// callHash returns a hash of a command's meaning. A delay is hashed as given, and not as its instant. Values that may
// differ between a call and its repeat (the time of receipt, the trace) are not hashed, and some parts only if they are
// given. A length or a mark of its kind precedes each part, so that no two calls have the same bytes.
//
// Never change the hashed parts: keys outlive the process.
func callHash(c *fsmpb.Command, jitterMs int64) uint64 {
	var h hasher
	h.digest.Reset()
	h.text(c.Id)
	h.condition(c.Condition)
	switch op := c.Op.(type) {
	case *fsmpb.Command_Schedule:
		h.text("schedule")
		h.schedule(op.Schedule)
	case *fsmpb.Command_Cancel:
		h.text("cancel")
	case *fsmpb.Command_Touch:
		h.text("touch")
		h.touch(op.Touch)
	case *fsmpb.Command_FireNow:
		h.text("fire")
	case *fsmpb.Command_Patch:
		h.text("patch")
		h.patch(op.Patch)
	default:
		h.callOfSchedule(c)
	}
	if jitterMs > 0 {
		h.text("jitter")
		h.num(jitterMs)
	}
	return h.digest.Sum64()
}

// callOfSchedule hashes the operation of a call about a schedule.
func (h *hasher) callOfSchedule(c *fsmpb.Command) {
	switch op := c.Op.(type) {
	case *fsmpb.Command_SetSeries:
		h.text("set schedule")
		h.series(op.SetSeries.Series)
		h.spec(op.SetSeries.Spec)
	case *fsmpb.Command_PauseSeries:
		h.text("pause schedule")
		h.flag(op.PauseSeries.Paused)
		h.text(op.PauseSeries.Note)
	case *fsmpb.Command_StartOccurrence:
		h.text("start occurrence")
	case *fsmpb.Command_SkipOccurrence:
		h.text("skip occurrence")
	default:
		panic(fmt.Sprintf("httpapi: no hash for %T", op))
	}
}

// meaningHash is callHash for a call whose command depends on more than the call.
func meaningHash(c *fsmpb.Command, meaning func(*hasher)) uint64 {
	var h hasher
	h.digest.Reset()
	h.text(c.Id)
	h.condition(c.Condition)
	meaning(&h)
	return h.digest.Sum64()
}

type hasher struct {
	digest  xxhash.Digest
	scratch [8]byte
}

func (h *hasher) num(n int64) {
	binary.LittleEndian.PutUint64(h.scratch[:], uint64(n))
	_, _ = h.digest.Write(h.scratch[:]) // a Digest's writes never fail
}

func (h *hasher) flag(b bool) {
	if b {
		h.num(1)
	} else {
		h.num(0)
	}
}

func (h *hasher) text(s string) {
	h.num(int64(len(s)))
	_, _ = h.digest.WriteString(s)
}

func (h *hasher) bytes(b []byte) {
	h.num(int64(len(b)))
	_, _ = h.digest.Write(b)
}

// optional hashes whether there is a number, and then the number.
func (h *hasher) optional(n *int64) {
	h.flag(n != nil)
	if n != nil {
		h.num(*n)
	}
}

func (h *hasher) optionalText(s *string) {
	h.flag(s != nil)
	if s != nil {
		h.text(*s)
	}
}

func (h *hasher) condition(c *fsmpb.Condition) {
	h.flag(c.GetAbsent())
	h.flag(c.GetPresent())
	h.num(int64(len(c.GetRevisions())))
	for _, r := range c.GetRevisions() {
		h.num(int64(r))
	}
}

func (h *hasher) schedule(s *fsmpb.Schedule) {
	h.flag(s.GeneratedId)
	h.when(s.DelayMs, s.FireAtMs)
	h.spec(s.Spec)
}

// when hashes the delay if there is one, or else the instant.
func (h *hasher) when(delayMs *int64, fireAtMs int64) {
	h.optional(delayMs)
	if delayMs == nil {
		h.num(fireAtMs)
	}
}

func (h *hasher) spec(s *fsmpb.Spec) {
	h.text(s.Queue)
	h.bytes(s.Payload)
	h.flag(s.PayloadIsBytes)
	h.text(s.ContentType)
	h.flag(s.Target != nil)
	if t := s.Target; t != nil {
		h.text(t.Url)
		h.num(t.TimeoutMs)
		h.num(int64(len(t.Headers)))
		for _, header := range t.Headers {
			h.text(header.Name)
			h.text(header.Value)
		}
	}
	h.flag(s.Retry != nil)
	if r := s.Retry; r != nil {
		h.num(int64(r.MaxAttempts))
		h.num(r.MinBackoffMs)
		h.num(r.MaxBackoffMs)
	}
	h.num(s.ExpiresAfterMs)
	h.num(int64(len(s.Labels)))
	for _, l := range s.Labels {
		h.text(l.Name)
		h.text(l.Value)
	}
	if delays := s.Retry.GetDelaysMs(); len(delays) > 0 {
		h.delays(delays)
	}
	if s.Window != nil {
		h.window(s.Window)
	}
	if s.Group != "" || s.Priority != 0 {
		h.order(&s.Group, &s.Priority)
	}
}

// order hashes a group and a priority, each of which may be nil.
func (h *hasher) order(group *string, priority *uint32) {
	h.text("order")
	h.optionalText(group)
	h.flag(priority != nil)
	if priority != nil {
		h.num(int64(*priority))
	}
}

func (h *hasher) window(w *fsmpb.Window) {
	h.text("window")
	h.text(w.TimeZone)
	h.text(w.Days)
	h.text(w.Calendar)
	h.texts(w.Daily)
}

func (h *hasher) delays(delays []int64) {
	h.text("delays")
	h.num(int64(len(delays)))
	for _, ms := range delays {
		h.num(ms)
	}
}

func (h *hasher) series(s *fsmpb.Series) {
	h.rule(s.Repeat)
	h.num(int64(s.Misfire))
	h.num(s.MisfireWindowMs)
	h.num(int64(s.Overlap))
	h.flag(s.Paused)
	h.text(s.Note)
}

func (h *hasher) rule(r *fsmpb.Repeat) {
	h.texts(r.Cron)
	h.num(r.EveryMs)
	h.optional(r.AnchorMs)
	h.text(r.TimeZone)
	h.optional(r.StartMs)
	h.optional(r.EndMs)
	h.num(r.Count)
	h.texts(r.Except)
	h.num(r.JitterMs)
	if r.Calendar != "" {
		h.text("calendar")
		h.text(r.Calendar)
	}
}

func (h *hasher) texts(list []string) {
	h.num(int64(len(list)))
	for _, text := range list {
		h.text(text)
	}
}

func (h *hasher) touch(t *fsmpb.Touch) {
	h.optional(t.DelayMs)
	h.optional(t.NoLaterThanMs)
	h.optional(t.NoLaterThanAgeMs)
	h.flag(t.OrSchedule != nil)
	if t.OrSchedule != nil {
		h.schedule(t.OrSchedule)
	}
}

func (h *hasher) patch(p *fsmpb.Patch) {
	h.flag(p.FireAtMs != nil)
	if p.FireAtMs != nil {
		h.when(p.DelayMs, *p.FireAtMs)
	}
	h.flag(p.Payload != nil)
	if p.Payload != nil {
		h.bytes(p.Payload.Data)
		h.flag(p.Payload.IsBytes)
	}
	h.flag(p.ClearPayload)
	h.optionalText(p.ContentType)
	h.patchOfTarget(p)
	h.patchOfRetry(p)
	h.flag(p.ClearLabels)
	h.num(int64(len(p.Labels)))
	for _, l := range p.Labels {
		h.text(l.Name)
		h.optionalText(l.Value)
	}
	if p.ClearWindow {
		h.text("no window")
	}
	if p.Window != nil {
		h.window(p.Window)
	}
	if p.Group != nil || p.Priority != nil {
		h.order(p.Group, p.Priority)
	}
}

func (h *hasher) patchOfTarget(p *fsmpb.Patch) {
	h.flag(p.ClearTarget)
	h.flag(p.Target != nil)
	if t := p.Target; t != nil {
		h.optionalText(t.Url)
		h.optional(t.TimeoutMs)
		h.flag(t.ClearHeaders)
		h.num(int64(len(t.Headers)))
		for _, header := range t.Headers {
			h.text(header.Name)
			h.optionalText(header.Value)
		}
	}
}

func (h *hasher) patchOfRetry(p *fsmpb.Patch) {
	h.flag(p.ClearRetry)
	h.flag(p.Retry != nil)
	if r := p.Retry; r != nil {
		h.flag(r.MaxAttempts != nil)
		h.num(int64(r.GetMaxAttempts()))
		h.optional(r.MinBackoffMs)
		h.optional(r.MaxBackoffMs)
		if r.Delays != nil {
			h.delays(r.Delays.Ms)
		}
	}
}
