package fsmpb

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// The generated code and any protobuf library read each other's output, because replicas of different builds share one
// log.
func TestCodecIsProtobuf(t *testing.T) {
	for _, empty := range []interface {
		proto.Message
		SizeVT() int
		MarshalVT() ([]byte, error)
	}{&Entry{}, &Result{}, &SnapshotHeader{}, &SnapshotRecord{}, &Extra{}, &QueuePolicy{}, &ListPage{}} {
		name := string(empty.ProtoReflect().Descriptor().Name())
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := proto.Clone(empty)
				fill(t, m.ProtoReflect(), 0)
				fast := m.(interface {
					SizeVT() int
					MarshalVT() ([]byte, error)
				})
				written, err := fast.MarshalVT()
				if err != nil || len(written) != fast.SizeVT() {
					t.Fatalf("%d bytes of %d, %v", len(written), fast.SizeVT(), err)
				}
				read := proto.Clone(empty)
				if err := proto.Unmarshal(written, read); err != nil || !proto.Equal(read, m) {
					t.Fatalf("read by the library: %v, not %v: %v", read, m, err)
				}
				written, err = proto.Marshal(m)
				assert.NoError(t, err)
				read = proto.Clone(empty)
				decoded := read.(interface{ UnmarshalVTUnsafe([]byte) error }).UnmarshalVTUnsafe(written)
				if decoded != nil || !proto.Equal(read, m) {
					t.Fatalf("read by the generated code: %v, not %v: %v", read, m, decoded)
				}
			})
		})
	}
}

// A message from a pool has no field of its previous use.
func TestPooledMessagesAreEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := [2]*Entry{{}, {}}
		var written [2][]byte
		for i, e := range entries {
			fill(t, e.ProtoReflect(), 0)
			var err error
			written[i], err = e.MarshalVT()
			assert.NoError(t, err)
		}
		pooled := EntryFromVTPool()
		for i, e := range entries {
			if err := pooled.UnmarshalVTUnsafe(written[i]); err != nil || !proto.Equal(pooled, e) {
				t.Fatalf("entry %d: %v, not %v: %v", i, pooled, e, err)
			}
			pooled.ResetVT()
		}
		pooled.ReturnToVTPool()
	})
}

const deepest = 4

// fill sets some fields of a message and of the messages in it.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !rapid.Bool().Draw(t, string(f.Name())) || f.Message() != nil && depth == deepest {
			continue
		}
		if !f.IsList() {
			m.Set(f, value(t, m.NewField(f), f, depth))
			continue
		}
		list := m.Mutable(f).List()
		for range rapid.IntRange(1, 3).Draw(t, "elements") {
			list.Append(value(t, list.NewElement(), f, depth))
		}
	}
}

func value(t *rapid.T, empty protoreflect.Value, f protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		fill(t, empty.Message(), depth+1)
		return empty
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(rapid.IntRange(0, values.Len()-1).Draw(t, "enum")).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64Range(0, 1e9).Draw(t, "double"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	}
	t.Fatalf("field %s is of a kind unknown to this test: %v", f.Name(), f.Kind())
	return protoreflect.Value{}
}

// A later decoding never overwrites the bytes that a pooled message pointed to.
func TestPooledMessagesLetGoOfTheirBytes(t *testing.T) {
	entry := func(payload string) []byte {
		spec := &Spec{Payload: []byte(payload)}
		data, err := (&Entry{Commands: []*Command{
			{Id: "a", Op: &Command_Schedule{Schedule: &Schedule{Spec: spec}}},
			{Id: "b", Op: &Command_Touch{Touch: &Touch{OrSchedule: &Schedule{Spec: spec}}}},
		}}).MarshalVT()
		assert.NoError(t, err)
		return data
	}
	first, second := entry("the first"), entry("another")
	before := string(first)
	for range 100 { // a pool may drop messages
		e := EntryFromVTPool()
		assert.NoError(t, e.UnmarshalVTUnsafe(first))
		e.ReturnToVTPool()
		assert.NoError(t, new(Entry).UnmarshalVTUnsafe(second))
		assert.MustEqual(t, string(first), before, "what was decoded first is written over")
	}
}
