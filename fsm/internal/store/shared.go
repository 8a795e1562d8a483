package store

import (
	"bytes"
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// shared holds the values that many tasks have in common. Tasks refer to them by number.
type shared struct {
	queues  queues
	targets internTable[target]
	manners internTable[*fsmpb.Extra]
}

func newShared() shared {
	return shared{newQueues(), newInternTable[target](), newInternTable[*fsmpb.Extra]()}
}

// copyForReading returns the same values under the same numbers, which a snapshot reads while the originals change.
func (s *shared) copyForReading() shared {
	return shared{
		queues:  queues{numbered: s.queues.copyForReading()},
		targets: internTable[target]{s.targets.copyForReading()},
		manners: internTable[*fsmpb.Extra]{s.manners.copyForReading()},
	}
}

// specOf rebuilds the spec of a task.
func (s *shared) specOf(c *cold, withPayload bool) *fsmpb.Spec {
	spec := &fsmpb.Spec{}
	s.fillSpec(spec, c)
	if withPayload && len(c.payload) > 0 {
		spec.Payload = append([]byte(nil), c.payload...)
	}
	return spec
}

// fillSpec makes spec the spec of a task without its payload.
func (s *shared) fillSpec(spec *fsmpb.Spec, c *cold) {
	extra := s.extraOf(c)
	*spec = fsmpb.Spec{
		Queue:          s.queues.at(c.queue).name,
		Target:         s.targetOf(c, extra),
		ContentType:    extra.ContentType,
		Retry:          extra.Retry,
		ExpiresAfterMs: extra.ExpiresAfterMs,
		Labels:         extra.Labels,
		Traceparent:    extra.Traceparent,
		PayloadIsBytes: c.asBytes,
		ScheduledMs:    extra.ScheduledMs,
		Window:         extra.Window,
		Group:          extra.Group,
		Priority:       extra.Priority,
	}
}

func (s *shared) targetOf(c *cold, extra *fsmpb.Extra) *fsmpb.Target {
	if c.target != 0 {
		return s.targets.at(c.target).value.spec
	}
	return extra.Target
}

// receiverOf returns the destination and the path of the task's own target, or "" if the task has none of its own.
func (s *shared) receiverOf(c *cold, extra *fsmpb.Extra) (destination, path string) {
	var t target
	switch {
	case c.target != 0:
		t = s.targets.at(c.target).value
	case extra.Target != nil:
		t = newTarget(extra.Target)
	}
	return t.destination, t.path
}

// setExtra writes an extra into a task's cold part, and counts its use of the manner.
func (s *shared) setExtra(c *cold, e *fsmpb.Extra) {
	c.manner, c.extra = 0, nil
	own := &fsmpb.Extra{
		Traceparent: e.Traceparent, Target: e.Target, Series: e.Series, ScheduledMs: e.ScheduledMs, Group: e.Group,
	}
	if hasManner(e) {
		manner := mustMarshal(&fsmpb.Extra{
			ContentType: e.ContentType, Retry: e.Retry, ExpiresAfterMs: e.ExpiresAfterMs, Labels: e.Labels,
			Window: e.Window, Priority: e.Priority,
		})
		c.manner = s.manners.acquire(string(manner), func() *fsmpb.Extra { return mustReadExtra(manner) })
		if c.manner == 0 {
			own = e
		}
	}
	if hasManner(own) || hasOwn(own) {
		c.extra = mustMarshal(own)
	}
}

// extraOf returns the complete extra of a task, shared parts included. The caller must not change it.
func (s *shared) extraOf(c *cold) *fsmpb.Extra {
	var manner *fsmpb.Extra
	if c.manner != 0 {
		manner = s.manners.at(c.manner).value
	}
	switch {
	case len(c.extra) == 0 && manner == nil:
		return noExtra
	case len(c.extra) == 0:
		return manner
	}
	extra := mustReadExtra(c.extra)
	if manner != nil {
		extra.ContentType, extra.Retry = manner.ContentType, manner.Retry
		extra.ExpiresAfterMs, extra.Labels = manner.ExpiresAfterMs, manner.Labels
		extra.Window, extra.Priority = manner.Window, manner.Priority
	}
	return extra
}

// labelsOf returns the labels of a task. The caller must not change them.
func (s *shared) labelsOf(c *cold) []*fsmpb.Label {
	switch {
	case c.manner != 0:
		return s.manners.at(c.manner).value.Labels // and none are in the extra
	case len(c.extra) == 0:
		return nil
	}
	return mustReadExtra(c.extra).Labels
}

// The manner of a task is its content type, retry policy, expiry, labels, window and priority. Many tasks have the same
// manner, so the store keeps each manner once, up to a bound. Replicas share different manners, so neither the state
// hash nor the size of a tombstone may depend on the sharing.

var noExtra = &fsmpb.Extra{} // never written to

func hasManner(e *fsmpb.Extra) bool {
	return e.ContentType != "" || e.Retry != nil || e.ExpiresAfterMs != 0 || len(e.Labels) > 0 ||
		e.Window != nil || e.Priority != 0
}

// hasOwn reports whether an extra has a part that is kept with each task.
func hasOwn(e *fsmpb.Extra) bool {
	return e.Traceparent != "" || e.Target != nil || e.Series != nil || e.ScheduledMs != 0 || e.Group != ""
}

// mustReadExtra decodes an extra from a copy of b.
func mustReadExtra(b []byte) *fsmpb.Extra {
	var extra fsmpb.Extra
	if err := extra.UnmarshalVTUnsafe(bytes.Clone(b)); err != nil {
		panic(fmt.Sprintf("fsm: a blob of this process cannot be read: %v", err))
	}
	return &extra
}

// extraBytes returns the size of an extra without its target, shared parts included.
func extraBytes(e *fsmpb.Extra) int {
	untargeted := fsmpb.Extra{
		ContentType: e.ContentType, Retry: e.Retry, ExpiresAfterMs: e.ExpiresAfterMs, Labels: e.Labels,
		Traceparent: e.Traceparent, Window: e.Window, Group: e.Group, Priority: e.Priority,
	}
	return untargeted.SizeVT()
}

// ForgetExpiry removes the task's expiry, so that an attempt may begin at any time.
func (e Edit) ForgetExpiry() {
	c := e.cold()
	extra := e.s.extraOf(&c)
	if extra.ExpiresAfterMs == 0 {
		return
	}
	e.rewriteCold(func(c *cold) {
		before := c.manner
		e.s.setExtra(c, &fsmpb.Extra{
			ContentType: extra.ContentType, Retry: extra.Retry, Labels: extra.Labels, Traceparent: extra.Traceparent,
			Target: extra.Target, Series: extra.Series, ScheduledMs: extra.ScheduledMs,
			Window: extra.Window, Group: extra.Group, Priority: extra.Priority,
		})
		e.s.manners.release(before)
	})
}
