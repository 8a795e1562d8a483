package fsm

import (
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/slab"
)

// newCold makes the cold part of a task from what a caller said, and counts its uses of shared values.
func (s *state) newCold(namespace string, spec *fsmpb.Spec, created int64, occurrence uint64, delay int64) *cold {
	c := &cold{
		coldHead: coldHead{created: created, occurrence: occurrence},
		queue:    s.queues.acquire(keyOfQueue(namespace, spec.Queue)).number,
		delay:    delay,
		asBytes:  spec.PayloadIsBytes,
		payload:  spec.Payload,
	}
	if isPlain(spec) { // most are; what follows makes garbage
		return c
	}
	extra := &fsmpb.Extra{
		ContentType:    spec.ContentType,
		Retry:          spec.Retry,
		ExpiresAfterMs: spec.ExpiresAfterMs,
		Labels:         spec.Labels,
		Traceparent:    spec.Traceparent,
	}
	if spec.Target != nil {
		c.target = s.targets.acquire(targetKey(spec.Target), func() target { return newTarget(copyOf(spec.Target)) })
		if c.target == 0 {
			extra.Target = spec.Target
		}
	}
	s.setExtra(c, extra)
	return c
}

// isPlain tells that a task says nothing beyond its payload and queue.
func isPlain(spec *fsmpb.Spec) bool {
	return spec.Target == nil && spec.ContentType == "" && spec.Retry == nil && spec.ExpiresAfterMs == 0 &&
		len(spec.Labels) == 0 && spec.Traceparent == ""
}

// copyOf shares nothing with the entry that a message came in.
func copyOf[M any, P interface {
	*M
	sizedMessage
	UnmarshalVT(b []byte) error
}](m P) P {
	own := P(new(M))
	if err := own.UnmarshalVT(mustMarshal(m)); err != nil {
		panic(fmt.Sprintf("fsm: a %T cannot be copied: %v", m, err))
	}
	return own
}

// putCold stores a blob and adds it to the state hash.
func (s *state) putCold(r *record, c *cold) slab.Ref {
	s.sum += s.digestCold(r, c)
	s.scratch = c.appendTo(s.scratch[:0])
	return s.blobs.Put(s.scratch)
}

// dropCold frees a task's blob and its uses of shared values.
func (s *state) dropCold(r *record) {
	c := readCold(s.blobs.Get(r.cold))
	s.sum -= s.digestCold(r, &c)
	s.queues.release(s.queues.list[c.queue])
	s.targets.release(c.target)
	s.manners.release(c.manner)
	s.blobs.Free(r.cold)
}

// replaceCold gives a task another blob. The new one takes its shared values before the old one lets go of them. The
// keys are written anew, since they lean on the blob.
func (s *state) replaceCold(h handle, c *cold) {
	r := s.tasks.Write(h)
	if r.idLen == 0 {
		c.namespace, c.id = s.idOf(r)
	}
	var kept [keysRemembered]remembered
	keys := s.keysOf(kept[:0], r)
	ref := s.putCold(r, c)
	s.dropCold(r)
	r.cold = ref
	if len(keys) > 0 {
		s.putKeys(h, keys)
	}
}

// rewriteCold replaces a task's blob by a changed copy of it, shared values staying as they are.
func (s *state) rewriteCold(h handle, change func(*cold)) {
	r := s.tasks.Write(h)
	c := readCold(s.blobs.Get(r.cold))
	old := r.cold
	s.sum -= s.digestCold(r, &c)
	change(&c)
	r.cold = s.putCold(r, &c)
	s.blobs.Free(old)
}

// specOf rebuilds what the caller said.
func (s *state) specOf(c *cold, withPayload bool) *fsmpb.Spec {
	spec := &fsmpb.Spec{}
	s.fillSpec(spec, c)
	if withPayload && len(c.payload) > 0 {
		spec.Payload = append([]byte(nil), c.payload...)
	}
	return spec
}

// fillSpec makes spec what the caller said, but for the payload.
func (s *state) fillSpec(spec *fsmpb.Spec, c *cold) {
	extra := s.extraOf(c)
	*spec = fsmpb.Spec{
		Queue:          s.queues.list[c.queue].name,
		Target:         s.targetOf(c, extra),
		ContentType:    extra.ContentType,
		Retry:          extra.Retry,
		ExpiresAfterMs: extra.ExpiresAfterMs,
		Labels:         extra.Labels,
		Traceparent:    extra.Traceparent,
		PayloadIsBytes: c.asBytes,
	}
}

func (s *state) targetOf(c *cold, extra *fsmpb.Extra) *fsmpb.Target {
	if c.target != 0 {
		return s.targets.entries[c.target].value.spec
	}
	return extra.Target
}

// destinationOf is where the target leads, empty if the task has none of its own.
func (s *state) destinationOf(c *cold, extra *fsmpb.Extra) string {
	switch {
	case c.target != 0:
		return s.targets.entries[c.target].value.destination
	case extra.Target != nil:
		return newTarget(extra.Target).destination
	}
	return ""
}

func mustMarshal(m sizedMessage) []byte {
	b := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(b); err != nil {
		panic(fmt.Sprintf("fsm: %T cannot be marshalled: %v", m, err))
	}
	return b
}
