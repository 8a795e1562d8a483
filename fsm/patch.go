package fsm

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// patch merges a merge patch into a task that no attempt of has begun, and checks the limits of what comes out.
func (m *Machine) patch(h handle, op *fsmpb.Patch) *fsmpb.Result {
	if m.begun(h) {
		return m.conflict(h)
	}
	r := m.tasks.Read(h)
	was := readCold(m.blobs.Get(r.cold))
	spec := mergeSpec(m.specOf(&was, true), op)
	if err := CheckSpec(spec); err != nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: err.Field, Detail: err.Detail, Revision: m.revisionOf(h)}
	}
	fireAt, delay := m.fireAtOf(r), was.delay
	if op.FireAtMs != nil {
		fireAt, delay = *op.FireAtMs, delayOf(op.DelayMs)
	}
	m.lift(h)
	m.replaceCold(h, m.newCold(spec, was.created, was.occurrence, delay))
	m.reschedule(h, fireAt)
	m.land(h)
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
}

// mergeSpec merges op into spec as RFC 7396 says: an absent member stays, a cleared one goes back to its default.
func mergeSpec(spec *fsmpb.Spec, op *fsmpb.Patch) *fsmpb.Spec {
	if op.ClearPayload {
		spec.Payload, spec.PayloadIsBytes = nil, false
	}
	if op.Payload != nil {
		spec.Payload, spec.PayloadIsBytes = op.Payload.Data, op.Payload.IsBytes
	}
	if op.ContentType != nil {
		spec.ContentType = *op.ContentType
	}
	spec.Target = mergeTarget(spec.Target, op)
	spec.Retry = mergeRetry(spec.Retry, op)
	spec.Labels = mergeLabels(spec.Labels, op)
	return spec
}

// mergeTarget never writes into what it is given: targets are shared between tasks.
func mergeTarget(t *fsmpb.Target, op *fsmpb.Patch) *fsmpb.Target {
	if op.ClearTarget {
		t = nil
	}
	if op.Target == nil {
		return t
	}
	merged := &fsmpb.Target{}
	if t != nil {
		merged = proto.CloneOf(t)
	}
	if op.Target.Url != nil {
		merged.Url = *op.Target.Url
	}
	if op.Target.TimeoutMs != nil {
		merged.TimeoutMs = *op.Target.TimeoutMs
	}
	if op.Target.ClearHeaders {
		merged.Headers = nil
	}
	for _, h := range op.Target.Headers {
		merged.Headers = setHeader(merged.Headers, h)
	}
	return merged
}

// setHeader sets or removes one header, keeping the order by name.
func setHeader(headers []*fsmpb.Header, h *fsmpb.HeaderPatch) []*fsmpb.Header {
	i, found := slices.BinarySearchFunc(headers, h.Name, func(a *fsmpb.Header, name string) int {
		return strings.Compare(a.Name, name)
	})
	switch {
	case h.Value == nil && found:
		return slices.Delete(headers, i, i+1)
	case h.Value == nil:
		return headers
	case found:
		headers[i] = &fsmpb.Header{Name: h.Name, Value: *h.Value}
		return headers
	}
	return slices.Insert(headers, i, &fsmpb.Header{Name: h.Name, Value: *h.Value})
}

func mergeRetry(r *fsmpb.Retry, op *fsmpb.Patch) *fsmpb.Retry {
	if op.ClearRetry {
		r = nil
	}
	if op.Retry == nil {
		return r
	}
	merged := &fsmpb.Retry{
		MaxAttempts:  r.GetMaxAttempts(),
		MinBackoffMs: r.GetMinBackoffMs(),
		MaxBackoffMs: r.GetMaxBackoffMs(),
	}
	if op.Retry.MaxAttempts != nil {
		merged.MaxAttempts = *op.Retry.MaxAttempts
	}
	if op.Retry.MinBackoffMs != nil {
		merged.MinBackoffMs = *op.Retry.MinBackoffMs
	}
	if op.Retry.MaxBackoffMs != nil {
		merged.MaxBackoffMs = *op.Retry.MaxBackoffMs
	}
	if merged.MaxAttempts == 0 && merged.MinBackoffMs == 0 && merged.MaxBackoffMs == 0 {
		return nil
	}
	return merged
}

func mergeLabels(labels []*fsmpb.Label, op *fsmpb.Patch) []*fsmpb.Label {
	if op.ClearLabels {
		labels = nil
	}
	for _, l := range op.Labels {
		labels = setLabel(labels, l)
	}
	return labels
}

// setLabel sets or removes one label, keeping the order by name.
func setLabel(labels []*fsmpb.Label, l *fsmpb.LabelPatch) []*fsmpb.Label {
	i, found := slices.BinarySearchFunc(labels, l.Name, func(a *fsmpb.Label, name string) int {
		return strings.Compare(a.Name, name)
	})
	switch {
	case l.Value == nil && found:
		return slices.Delete(labels, i, i+1)
	case l.Value == nil:
		return labels
	case found:
		labels[i] = &fsmpb.Label{Name: l.Name, Value: *l.Value}
		return labels
	}
	return slices.Insert(labels, i, &fsmpb.Label{Name: l.Name, Value: *l.Value})
}
