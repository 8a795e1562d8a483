package store

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// shared holds the values that many tasks have in common. Tasks refer to them by number.
type shared struct {
	queues  Queues
	targets internTable[target]
	manners internTable[manner]
}

func newShared() shared {
	return shared{newQueues(), newInternTable[target](), newInternTable[manner]()}
}

// copyForReading returns the same values under the same numbers, which a snapshot reads while the originals change.
func (s *shared) copyForReading() shared {
	return shared{
		queues:  Queues{numbered: s.queues.copyForReading()},
		targets: internTable[target]{s.targets.copyForReading()},
		manners: internTable[manner]{s.manners.copyForReading()},
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
	task.CopySpec(spec, extra.Spec)
	spec.Queue, spec.PayloadIsBytes, spec.Target = s.queues.at(c.queue).name, c.asBytes, s.targetOf(c, extra)
}

func (s *shared) targetOf(c *cold, extra *fsmpb.Extra) *fsmpb.Target {
	if c.target != 0 {
		return s.targets.at(c.target).value.spec
	}
	return extra.Spec.Target
}

// receiverOf returns the destination and the path of the task's own target, or "" if the task has none of its own.
func (s *shared) receiverOf(c *cold, extra *fsmpb.Extra) (destination, path string) {
	var t target
	switch {
	case c.target != 0:
		t = s.targets.at(c.target).value
	case extra.Spec.Target != nil:
		t = newTarget(extra.Spec.Target)
	}
	return t.destination, t.path
}

// A manner is the part of a spec that many tasks have in common: everything that mannerOf leaves in. The store keeps
// each manner once, up to a bound. Replicas share different manners, so neither the state hash nor the size of a
// tombstone may depend on the sharing.
type manner struct {
	extra *fsmpb.Extra // with the manner alone
	sum   uint64       // of its encoding
}

// mannerOf returns the manner of a spec. The result shares the parts of the spec.
func mannerOf(spec *fsmpb.Spec) *fsmpb.Spec {
	m := &fsmpb.Spec{}
	task.CopySpec(m, spec)
	m.Queue, m.Payload, m.PayloadIsBytes, m.Target = "", nil, false, nil
	m.Traceparent, m.ScheduledMs, m.Group = "", 0, ""
	if bringsPayload(spec) {
		m.OnDelivered, m.OnDead = nil, nil
	}
	return m
}

// bringsPayload reports whether a follow-up in a spec has a payload, so that other tasks hardly have the same one.
func bringsPayload(spec *fsmpb.Spec) bool {
	return (spec.OnDelivered != nil || spec.OnDead != nil) && task.PayloadBytes(spec) > len(spec.Payload)
}

// setExtra writes an extra into a task's cold part, and counts its use of the manner.
func (s *shared) setExtra(c *cold, e *fsmpb.Extra) {
	c.manner, c.extra = 0, nil
	own := &fsmpb.Extra{Series: e.Series, Spec: &fsmpb.Spec{
		Target: e.Spec.Target, Traceparent: e.Spec.Traceparent, ScheduledMs: e.Spec.ScheduledMs, Group: e.Spec.Group,
	}}
	if bringsPayload(e.Spec) {
		own.Spec.OnDelivered, own.Spec.OnDead = e.Spec.OnDelivered, e.Spec.OnDead
	}
	if data := mustMarshal(mannerOf(e.Spec)); len(data) > 0 {
		c.manner = s.manners.acquire(string(data), func() manner {
			return manner{&fsmpb.Extra{Spec: mustRead[fsmpb.Spec](data)}, xxhash.Sum64(data)}
		})
		if c.manner == 0 {
			own = e
		}
	}
	if own.Series != nil || own.Spec.SizeVT() > 0 {
		c.extra = mustMarshal(own)
	}
}

// extraOf returns the complete extra of a task, shared parts included. The caller must not change it.
func (s *shared) extraOf(c *cold) *fsmpb.Extra {
	common := noExtra
	if c.manner != 0 {
		common = s.manners.at(c.manner).value.extra
	}
	if len(c.extra) == 0 {
		return common
	}
	extra := mustRead[fsmpb.Extra](bytes.Clone(c.extra))
	if c.manner != 0 {
		own := extra.Spec
		extra.Spec = &fsmpb.Spec{}
		task.CopySpec(extra.Spec, common.Spec)
		extra.Spec.Target, extra.Spec.Traceparent = own.Target, own.Traceparent
		extra.Spec.ScheduledMs, extra.Spec.Group = own.ScheduledMs, own.Group
		if own.OnDelivered != nil || own.OnDead != nil {
			extra.Spec.OnDelivered, extra.Spec.OnDead = own.OnDelivered, own.OnDead
		}
	}
	return extra
}

// labelsOf returns the labels of a task. The caller must not change them.
func (s *shared) labelsOf(c *cold) []*fsmpb.Label {
	switch {
	case c.manner != 0:
		return s.manners.at(c.manner).value.extra.Spec.Labels // and none are in the extra
	case len(c.extra) == 0:
		return nil
	}
	return mustRead[fsmpb.Extra](bytes.Clone(c.extra)).Spec.Labels
}

// mannerSum returns the hash of the manner of a task with this extra, or 0 if the manner is empty.
func (s *shared) mannerSum(c *cold, extra *fsmpb.Extra) uint64 {
	switch {
	case c.manner != 0:
		return s.manners.at(c.manner).value.sum
	case len(c.extra) == 0:
		return 0
	}
	data := mustMarshal(mannerOf(extra.Spec))
	if len(data) == 0 {
		return 0
	}
	return xxhash.Sum64(data) // the table was full
}

var noExtra = &fsmpb.Extra{Spec: &fsmpb.Spec{}} // never written to

// extraBytes returns the size of an extra without its target, its instant and its series, shared parts included.
func extraBytes(e *fsmpb.Extra) int {
	if e == noExtra {
		return 0
	}
	var spec fsmpb.Spec
	task.CopySpec(&spec, e.Spec)
	spec.Target, spec.ScheduledMs = nil, 0
	return spec.SizeVT()
}
