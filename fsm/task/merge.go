package task

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// CopySpec makes to a copy of from. The two share their target, their labels and so on.
func CopySpec(to, from *fsmpb.Spec) {
	*to = fsmpb.Spec{
		Queue: from.Queue, Payload: from.Payload, PayloadIsBytes: from.PayloadIsBytes, ContentType: from.ContentType,
		Target: from.Target, Retry: from.Retry, ExpiresAfterMs: from.ExpiresAfterMs, Labels: from.Labels,
		Traceparent: from.Traceparent, ScheduledMs: from.ScheduledMs, Window: from.Window, Group: from.Group,
		Priority: from.Priority,
	}
}

// MergeSpec merges op into spec by RFC 7396: an absent member stays, a cleared one goes back to its default.
func MergeSpec(spec *fsmpb.Spec, op *fsmpb.Patch) *fsmpb.Spec {
	if op.ClearPayload {
		spec.Payload, spec.PayloadIsBytes = nil, false
	}
	if op.Payload != nil {
		spec.Payload, spec.PayloadIsBytes = op.Payload.Data, op.Payload.IsBytes
	}
	if op.ContentType != nil {
		spec.ContentType = *op.ContentType
	}
	spec.Target = MergeTarget(spec.Target, op)
	spec.Retry = MergeRetry(spec.Retry, op)
	spec.Labels = mergeLabels(spec.Labels, op)
	if op.ClearWindow {
		spec.Window = nil
	}
	if op.Window != nil {
		spec.Window = op.Window
	}
	if op.Group != nil {
		spec.Group = *op.Group
	}
	if op.Priority != nil {
		spec.Priority = *op.Priority
	}
	return spec
}

// MergeTarget merges op into the target t and returns the result, nil for no target. It never writes to t, because
// tasks share targets.
func MergeTarget(t *fsmpb.Target, op *fsmpb.Patch) *fsmpb.Target {
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
	stored := t.GetHeaders()
	if op.Target.ClearHeaders {
		stored = nil
	}
	for _, h := range op.Target.Headers {
		merged.Headers = setNamed(merged.Headers, h.Name, h.Value, func(value string) *fsmpb.Header {
			return &fsmpb.Header{Name: h.Name, Value: value}
		})
	}
	return KeepMasked(merged, &fsmpb.Target{Headers: stored})
}

// MergeRetry merges op into the retry policy r and returns the result, nil for no policy. It never writes to r.
func MergeRetry(r *fsmpb.Retry, op *fsmpb.Patch) *fsmpb.Retry {
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
		DelaysMs:     r.GetDelaysMs(),
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
	if op.Retry.Delays != nil {
		merged.DelaysMs = op.Retry.Delays.Ms
	}
	if merged.MaxAttempts == 0 && merged.MinBackoffMs == 0 && merged.MaxBackoffMs == 0 && len(merged.DelaysMs) == 0 {
		return nil
	}
	return merged
}

func mergeLabels(labels []*fsmpb.Label, op *fsmpb.Patch) []*fsmpb.Label {
	if op.ClearLabels {
		labels = nil
	}
	labels = slices.Clone(labels) // other tasks share the labels
	for _, l := range op.Labels {
		labels = setNamed(labels, l.Name, l.Value, func(value string) *fsmpb.Label {
			return &fsmpb.Label{Name: l.Name, Value: value}
		})
	}
	return labels
}

// setNamed sets the entry of one name, or removes it if value is nil. The list stays sorted by name.
func setNamed[E interface{ GetName() string }](list []E, name string, value *string, entry func(string) E) []E {
	byName := func(e E, name string) int { return strings.Compare(e.GetName(), name) }
	i, found := slices.BinarySearchFunc(list, name, byName)
	switch {
	case value == nil && found:
		return slices.Delete(list, i, i+1)
	case value == nil:
		return list
	case found:
		list[i] = entry(*value)
		return list
	}
	return slices.Insert(list, i, entry(*value))
}

// Patched returns the names of the members that a patch changes, as far as a bulk operation may change them.
func Patched(p *fsmpb.Patch) (names []string) {
	if p.GetTarget() != nil {
		names = append(names, "target")
	}
	if p.GetRetry() != nil || p.GetClearRetry() {
		names = append(names, "retry")
	}
	if len(p.GetLabels()) > 0 || p.GetClearLabels() {
		names = append(names, "labels")
	}
	return names
}
