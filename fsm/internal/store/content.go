package store

import (
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/fsm/task"
)

// Content is a task as its callers described it, with its creation time and occurrence.
type Content struct {
	Spec       *fsmpb.Spec // never nil
	CreatedMs  int64
	Occurrence uint64
	DelayMs    int64         // of the last call with a delay; NoDelay: no call had one
	Series     *fsmpb.Series // of a schedule; nil: a task
}

// NoDelay is the delay of a task for which no call has given one.
const NoDelay = -1

// Content returns the content of the task, with the payload only if withPayload is set. The caller must not change it:
// tasks share parts of it.
func (t Task) Content(withPayload bool) Content {
	c := t.cold()
	return Content{
		Spec: t.s.mem.specOf(&c, withPayload), CreatedMs: c.created, Occurrence: c.occurrence, DelayMs: c.delay,
		Series: t.s.mem.extraOf(&c).Series,
	}
}

// DelayMs returns the delay that the last call gave, or NoDelay.
func (t Task) DelayMs() int64 { return t.cold().delay }

// Namespace returns the task's namespace.
func (t Task) Namespace() string { return t.s.mem.queueOf(t.record()).namespace }

// Queue returns the name of the task's queue.
func (t Task) Queue() string { return t.s.mem.queueOf(t.record()).name }

// Target returns the task's own target, or nil if it has none. The caller must not change it.
func (t Task) Target() *fsmpb.Target {
	c := t.cold()
	return t.s.mem.targetOf(&c, t.s.mem.extraOf(&c))
}

// Terms returns the task's own terms.
func (t Task) Terms() task.Terms {
	c := t.cold()
	extra := t.s.mem.extraOf(&c)
	return task.TermsOf(t.s.mem.targetOf(&c, extra), extra.Spec.Retry)
}

// ExpiresAfterMs returns how long after its due time the task's first attempt may begin. 0 means without a limit.
func (t Task) ExpiresAfterMs() int64 {
	c := t.cold()
	return t.s.mem.extraOf(&c).Spec.ExpiresAfterMs
}

// Counted returns the bytes that the task counts with in Queues.Use.
func (t Task) Counted() int {
	var c spaceCounts
	c.add(t.record().state, t.s.mem.heldBytes(t.record()), 1)
	return int(c.bytes)
}

func (t Task) cold() cold { return readCold(t.s.mem.blobs.Get(t.record().cold)) }

// Rewrite replaces the content of the task.
func (e Edit) Rewrite(content Content) {
	s, r := e.s, e.s.mem.tasks.Write(e.h)
	c := s.mem.newCold(e.Namespace(), &content) // acquires the new shared values before the old content releases its own
	if r.idLen == 0 {
		c.namespace, c.id = s.mem.idOf(r)
	}
	var kept [keysRemembered]remembered
	keys := s.mem.keysOf(kept[:0], r)
	e.relabel(s.mem.labelsOf(&c))
	ref := s.putCold(r, &c)
	s.dropCold(r)
	r.cold = ref
	if len(keys) > 0 {
		e.putKeys(keys) // the encoding of the keys depends on the blob
	}
}

// relabel replaces the labels of the task in the index.
func (e Edit) relabel(labels []*fsmpb.Label) {
	c := e.cold()
	if old := e.s.mem.labelsOf(&c); !slices.EqualFunc(old, labels, equalLabels) {
		e.s.labels.removeTask(e.h, e.Namespace(), old)
		e.s.labels.addTask(e.h, e.Namespace(), labels)
	}
}

// ForgetExpiry removes the task's expiry, so that an attempt may begin at any time.
func (e Edit) ForgetExpiry() {
	c := e.cold()
	extra := e.s.mem.extraOf(&c)
	if extra.Spec.ExpiresAfterMs == 0 {
		return
	}
	spec := &fsmpb.Spec{}
	task.CopySpec(spec, extra.Spec)
	spec.ExpiresAfterMs = 0
	e.rewriteCold(func(c *cold) {
		before := c.manner
		e.s.mem.setExtra(c, &fsmpb.Extra{Spec: spec, Series: extra.Series})
		e.s.mem.manners.release(before)
	})
}

func equalLabels(a, b *fsmpb.Label) bool { return a.Name == b.Name && a.Value == b.Value }

// SetDelay replaces the delay of the task.
func (e Edit) SetDelay(ms int64) { e.rewriteCold(func(c *cold) { c.delay = ms }) }

// DropPayload makes the task's payload empty.
func (e Edit) DropPayload() {
	c := e.cold()
	if len(c.payload) == 0 && !c.asBytes {
		return
	}
	without := c
	without.payload, without.asBytes = nil, false
	m, r := &e.s.mem, e.s.mem.tasks.Write(e.h)
	extra := m.extraOf(&c)
	e.s.sum += m.digestContent(r, &without, extra) - m.digestContent(r, &c, extra)
	old := r.cold
	r.cold = m.putCold(&without)
	m.blobs.Free(old)
}

// newCold makes the cold part of a task and counts its uses of shared values.
func (m *memory) newCold(namespace string, content *Content) cold {
	spec := content.Spec
	c := cold{
		coldHead: coldHead{created: content.CreatedMs, occurrence: content.Occurrence},
		queue:    m.queues.acquire(keyOfQueue(namespace, spec.Queue)).number,
		delay:    content.DelayMs,
		asBytes:  spec.PayloadIsBytes,
		payload:  spec.Payload,
	}
	plain := fsmpb.Spec{Queue: spec.Queue, Payload: spec.Payload, PayloadIsBytes: spec.PayloadIsBytes}
	if spec.SizeVT() == plain.SizeVT() && content.Series == nil { // most tasks are plain; the code below makes garbage
		return c
	}
	rest := &fsmpb.Spec{}
	task.CopySpec(rest, spec)
	rest.Queue, rest.Payload, rest.PayloadIsBytes = "", nil, false
	if spec.Target != nil {
		c.target = m.targets.acquire(targetKey(spec.Target), func() target { return newTarget(CopyOf(spec.Target)) })
		if c.target != 0 {
			rest.Target = nil
		}
	}
	m.setExtra(&c, &fsmpb.Extra{Spec: rest, Series: content.Series})
	return c
}

// messageOf is a pointer to a message of package fsmpb.
type messageOf[M any] interface {
	*M
	sizedMessage
	UnmarshalVTUnsafe(b []byte) error
}

// CopyOf returns a copy of a message. The copy shares no memory with the entry that the message came in.
func CopyOf[M any, P messageOf[M]](m P) P { return mustRead[M, P](mustMarshal(m)) }

// mustRead decodes a message that this process has encoded. The result aliases b.
func mustRead[M any, P messageOf[M]](b []byte) P {
	m := P(new(M))
	if err := m.UnmarshalVTUnsafe(b); err != nil {
		panic(fmt.Sprintf("fsm: a %T of this process cannot be read: %v", m, err))
	}
	return m
}

// putCold stores a blob and adds it to the state hash.
func (s *Store) putCold(r *record, c *cold) slab.Ref {
	s.sum += s.mem.digestCold(r, c)
	return s.mem.putCold(c)
}

func (m *memory) putCold(c *cold) slab.Ref {
	m.scratch = c.appendTo(m.scratch[:0])
	return m.blobs.Put(m.scratch)
}

// dropCold frees a task's blob and its uses of shared values.
func (s *Store) dropCold(r *record) {
	c := readCold(s.mem.blobs.Get(r.cold))
	s.sum -= s.mem.digestCold(r, &c)
	s.mem.queues.release(s.mem.queues.at(c.queue))
	s.mem.targets.release(c.target)
	s.mem.manners.release(c.manner)
	s.mem.blobs.Free(r.cold)
}

// rewriteCold replaces the task's blob by a changed copy. The uses of shared values stay the same.
func (e Edit) rewriteCold(change func(*cold)) {
	s, r := e.s, e.s.mem.tasks.Write(e.h)
	c, old := &s.mem.changed, r.cold
	*c = readCold(s.mem.blobs.Get(old))
	s.sum -= s.mem.digestCold(r, c)
	change(c)
	r.cold = s.putCold(r, c)
	s.mem.blobs.Free(old)
	*c = cold{}
}

func mustMarshal(m sizedMessage) []byte {
	b := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(b); err != nil {
		panic(fmt.Sprintf("fsm: %T cannot be marshalled: %v", m, err))
	}
	return b
}
