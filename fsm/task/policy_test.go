package task

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The largest value that each limit of a policy allows passes. One more is refused, and the error names the field.
func TestCheckQueue(t *testing.T) {
	century := MaxKeep.Milliseconds()
	secrets := func(sizes ...int) *fsmpb.QueuePolicy {
		p := &fsmpb.QueuePolicy{}
		for _, n := range sizes {
			p.Secrets = append(p.Secrets, make([]byte, n))
		}
		return p
	}
	url := func(url string) *fsmpb.QueuePolicy { return &fsmpb.QueuePolicy{Target: &fsmpb.Target{Url: url}} }
	rate := func(r float64) *fsmpb.QueuePolicy { return &fsmpb.QueuePolicy{MaxPerSecond: r} }
	attempts := func(n uint32) *fsmpb.QueuePolicy { return &fsmpb.QueuePolicy{Retry: &fsmpb.Retry{MaxAttempts: n}} }
	for _, c := range []struct {
		field            string
		allowed, refused *fsmpb.QueuePolicy
	}{
		{"queue", &fsmpb.QueuePolicy{Queue: "a"}, &fsmpb.QueuePolicy{Queue: "a/b"}},
		{"target.url", url("http://x/"), url("x")},
		{"retry.max_attempts", attempts(1000), attempts(1001)},
		{"max_in_flight", &fsmpb.QueuePolicy{MaxInFlight: 1_000_000}, &fsmpb.QueuePolicy{MaxInFlight: 1_000_001}},
		{"max_per_second", rate(1e6), rate(1e6 + 1)},
		{"max_per_second", rate(0.001), rate(-0.001)},
		{"max_per_second", rate(0), rate(math.NaN())},
		{"max_per_second", rate(1), rate(math.Inf(1))},
		{"batch_max", &fsmpb.QueuePolicy{BatchMax: 1000}, &fsmpb.QueuePolicy{BatchMax: 1001}},
		{"keep_done", &fsmpb.QueuePolicy{KeepDoneMs: century}, &fsmpb.QueuePolicy{KeepDoneMs: century + 1}},
		{"keep_dead", &fsmpb.QueuePolicy{KeepDeadMs: century}, &fsmpb.QueuePolicy{KeepDeadMs: -1}},
		{"signing.secrets", secrets(24, 64), secrets(24, 24, 24)},
		{"signing.secrets", secrets(24), secrets(23)},
		{"signing.secrets", secrets(64), secrets(24, 65)},
	} {
		if c.allowed.Queue == "" {
			c.allowed.Queue, c.refused.Queue = "q", "q"
		}
		if err := CheckQueue(c.allowed); err != nil {
			t.Errorf("%s: the limit itself is refused: %v", c.field, err)
		}
		if err := CheckQueue(c.refused); err == nil || err.Field != c.field || err.Error() == "" {
			t.Errorf("%s: got %v", c.field, err)
		}
	}
}

// A merge patch replaces the delays as a whole. A retry policy that it leaves without content becomes nil.
func TestMergeRetryOfDelays(t *testing.T) {
	was := &fsmpb.Retry{DelaysMs: []int64{1, 2}}
	list := func(ms ...int64) *fsmpb.Patch {
		return &fsmpb.Patch{Clear: []string{"retry.delays"}, Set: &fsmpb.Spec{Retry: &fsmpb.Retry{DelaysMs: ms}}}
	}
	for _, c := range []struct {
		was, want *fsmpb.Retry
		patch     *fsmpb.Patch
	}{
		{was, was, &fsmpb.Patch{}},
		{was, was, &fsmpb.Patch{Set: &fsmpb.Spec{Retry: &fsmpb.Retry{}}}},
		{was, &fsmpb.Retry{DelaysMs: []int64{7}}, list(7)},
		{was, nil, list()},
		{was, nil, &fsmpb.Patch{Clear: []string{"retry"}}},
		{nil, &fsmpb.Retry{DelaysMs: []int64{7, 8}}, list(7, 8)},
		{&fsmpb.Retry{MaxAttempts: 2}, &fsmpb.Retry{MaxAttempts: 2, DelaysMs: []int64{7}}, list(7)},
	} {
		if got := MergeSpec(&fsmpb.Spec{Retry: c.was}, c.patch).Retry; !proto.Equal(got, c.want) {
			t.Errorf("%v of %v: %v, want %v", c.patch, c.was, got, c.want)
		}
	}
}

// CopySpec copies every field, and MergeSpec clears and sets every one that is no part of an object.
func TestCopySpec(t *testing.T) {
	values := map[protoreflect.Kind]protoreflect.Value{
		protoreflect.StringKind: protoreflect.ValueOfString("x"), protoreflect.BytesKind: protoreflect.ValueOfBytes([]byte{1}),
		protoreflect.BoolKind: protoreflect.ValueOfBool(true), protoreflect.Int64Kind: protoreflect.ValueOfInt64(1),
		protoreflect.Uint32Kind: protoreflect.ValueOfUint32(1),
	}
	from, to := &fsmpb.Spec{}, &fsmpb.Spec{}
	m := from.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsList():
			m.Mutable(f).List().AppendMutable()
		case f.Message() != nil:
			m.Mutable(f)
		default:
			m.Set(f, values[f.Kind()])
		}
	}
	from.Retry.MaxAttempts = 2 // an empty policy is none
	if CopySpec(to, from); !proto.Equal(to, from) {
		t.Errorf("%v became %v", from, to)
	}
	if got := MergeSpec(&fsmpb.Spec{}, &fsmpb.Patch{Set: from}); !proto.Equal(got, from) {
		t.Errorf("%v, set, became %v", from, got)
	}
	op := &fsmpb.Patch{}
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); name != "payload_is_bytes" {
			op.Clear = append(op.Clear, strings.TrimSuffix(name, "_ms"))
		}
	}
	if got := MergeSpec(from, op); !proto.Equal(got, &fsmpb.Spec{}) || !proto.Equal(to, from) {
		t.Errorf("%v, cleared, became %v", from, got)
	}
}

// A merge patch changes some entries of an object, removes others, and leaves the rest. It does not write to the spec.
func TestMergeObjects(t *testing.T) {
	headers := []*fsmpb.Header{{Name: "a", Value: "1"}, {Name: "b.c", Value: "2"}, {Name: "d", Value: "3"}}
	labels := []*fsmpb.Label{{Name: "a", Value: "1"}, {Name: "b.c", Value: "2"}, {Name: "d", Value: "3"}}
	stored := &fsmpb.Spec{
		Target: &fsmpb.Target{Url: "http://a", TimeoutMs: 1, Headers: headers}, Labels: labels,
		Retry: &fsmpb.Retry{MaxAttempts: 3, MinBackoffMs: 5},
	}
	was := proto.CloneOf(stored)
	got := MergeSpec(stored, &fsmpb.Patch{
		Clear: []string{"labels.b.c", "retry.min_backoff", "target.headers.b.c", "target.timeout"},
		Set: &fsmpb.Spec{
			Target: &fsmpb.Target{Headers: []*fsmpb.Header{{Name: "a", Value: "9"}, {Name: "c", Value: "8"}}},
			Labels: []*fsmpb.Label{{Name: "a", Value: "9"}, {Name: "c", Value: "8"}}, Retry: &fsmpb.Retry{MaxAttempts: 4},
		},
	})
	want := &fsmpb.Spec{
		Target: &fsmpb.Target{Url: "http://a", Headers: []*fsmpb.Header{
			{Name: "a", Value: "9"}, {Name: "c", Value: "8"}, {Name: "d", Value: "3"},
		}},
		Labels: []*fsmpb.Label{{Name: "a", Value: "9"}, {Name: "c", Value: "8"}, {Name: "d", Value: "3"}},
		Retry:  &fsmpb.Retry{MaxAttempts: 4},
	}
	if !proto.Equal(got, want) || !proto.Equal(stored, was) {
		t.Errorf("%v became %v", stored, got)
	}
}
