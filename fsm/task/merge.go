package task

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// CopySpec makes to a copy of from. The two share their target, their labels and so on.
func CopySpec(to, from *fsmpb.Spec) {
	*to = fsmpb.Spec{
		Queue: from.Queue, Payload: from.Payload, PayloadIsBytes: from.PayloadIsBytes, ContentType: from.ContentType,
		Target: from.Target, Retry: from.Retry, ExpiresAfterMs: from.ExpiresAfterMs, Labels: from.Labels,
		Traceparent: from.Traceparent, ScheduledMs: from.ScheduledMs, Window: from.Window, Group: from.Group,
		Priority: from.Priority, OnDelivered: from.OnDelivered, OnDead: from.OnDead,
	}
}

// MergeSpec merges op into spec by RFC 7396 and returns the result: an absent member stays, a cleared one goes back to
// its default. It never writes to spec, because tasks share parts of theirs.
func MergeSpec(spec *fsmpb.Spec, op *fsmpb.Patch) *fsmpb.Spec {
	merged := &fsmpb.Spec{}
	CopySpec(merged, spec)
	merged.Target, merged.Retry = proto.CloneOf(spec.Target), proto.CloneOf(spec.Retry)
	merged.Window, merged.Labels = proto.CloneOf(spec.Window), slices.Clone(spec.Labels)
	for _, path := range op.Clear {
		clearMember(merged, path)
	}
	stored := &fsmpb.Target{Headers: slices.Clone(merged.Target.GetHeaders())}
	proto.Merge(merged, op.Set)
	merged.Labels = lastOfEach(merged.Labels)
	if merged.Target != nil {
		merged.Target.Headers = lastOfEach(merged.Target.Headers)
		merged.Target = KeepMasked(merged.Target, stored)
	}
	if merged.Retry.SizeVT() == 0 {
		merged.Retry = nil
	}
	return merged
}

// clearMember sets the member of a spec that the API calls path back to its default.
func clearMember(spec *fsmpb.Spec, path string) {
	member, below, nested := strings.Cut(path, ".")
	switch {
	case path == "payload":
		spec.Payload, spec.PayloadIsBytes = nil, false
	case !nested:
		clearField(spec.ProtoReflect(), member)
	case member == "labels":
		spec.Labels = without(spec.Labels, below)
	case member == "retry" && spec.Retry != nil:
		clearField(spec.Retry.ProtoReflect(), below)
	case member == "target" && spec.Target != nil:
		if header, ok := strings.CutPrefix(below, "headers."); ok {
			spec.Target.Headers = without(spec.Target.Headers, header)
		} else {
			clearField(spec.Target.ProtoReflect(), below)
		}
	}
}

// clearField clears the field with the API's name of a member.
func clearField(m protoreflect.Message, member string) {
	if field := fieldOf(m, member); field != nil {
		m.Clear(field)
	}
}

// fieldOf returns the field with the API's name of a member, or nil: durations and instants have their unit in the
// field's name.
func fieldOf(m protoreflect.Message, member string) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	if field := fields.ByName(protoreflect.Name(member)); field != nil {
		return field
	}
	return fields.ByName(protoreflect.Name(member + "_ms"))
}

// SettingsOf returns the part of a schedule that callers set. It shares the schedule's rule.
func SettingsOf(s *fsmpb.Series) *fsmpb.Series {
	return &fsmpb.Series{
		Repeat: s.GetRepeat(), Misfire: s.GetMisfire(), MisfireWindowMs: s.GetMisfireWindowMs(), Overlap: s.GetOverlap(),
		Paused: s.GetPaused(), Note: s.GetNote(),
	}
}

// MergeSettings returns a copy of the part of a schedule that callers set, with the changed settings from set. The
// names are the API's, as in note and repeat.cron. An interval that goes takes an anchor along that is not changed.
func MergeSettings(s, set *fsmpb.Series, changed []string) *fsmpb.Series {
	merged := proto.CloneOf(SettingsOf(s))
	if merged.Repeat == nil {
		merged.Repeat = &fsmpb.Repeat{}
	}
	from := proto.CloneOf(set)
	for _, path := range changed {
		if member, ok := strings.CutPrefix(path, "repeat."); ok {
			copyField(merged.Repeat.ProtoReflect(), from.GetRepeat().ProtoReflect(), member)
			continue
		}
		copyField(merged.ProtoReflect(), from.ProtoReflect(), path)
	}
	if merged.Repeat.EveryMs == 0 && !slices.Contains(changed, "repeat.anchor") {
		merged.Repeat.AnchorMs = nil
	}
	return merged
}

// copyField sets the field with the API's name of a member to its value in from, which may be the default.
func copyField(to, from protoreflect.Message, member string) {
	switch field := fieldOf(to, member); {
	case field == nil:
	case from.IsValid() && from.Has(field):
		to.Set(field, from.Get(field))
	default:
		to.Clear(field)
	}
}

func without[E interface{ GetName() string }](list []E, name string) []E {
	return slices.DeleteFunc(list, func(e E) bool { return e.GetName() == name })
}

// lastOfEach sorts a list by name, and keeps the last entry with each name.
func lastOfEach[E interface{ GetName() string }](list []E) []E {
	slices.SortStableFunc(list, func(a, b E) int { return strings.Compare(a.GetName(), b.GetName()) })
	kept := list[:0]
	for i, e := range list {
		if i == len(list)-1 || list[i+1].GetName() != e.GetName() {
			kept = append(kept, e)
		}
	}
	return kept
}

// Patched returns the names of the members that a patch changes, as far as a bulk operation may change them.
func Patched(p *fsmpb.Patch) (names []string) {
	set := p.GetSet()
	for _, m := range []struct {
		name string
		set  bool
	}{{"target", set.GetTarget() != nil}, {"retry", set.GetRetry() != nil}, {"labels", len(set.GetLabels()) > 0}} {
		isCleared := func(path string) bool { return path == m.name || strings.HasPrefix(path, m.name+".") }
		if m.set || slices.ContainsFunc(p.GetClear(), isCleared) {
			names = append(names, m.name)
		}
	}
	return names
}
