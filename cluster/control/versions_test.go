package control

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// firstOps are the operations of version 1, by field number. The list does not grow after release 0.1.0: another
// operation has a version of its own.
var firstOps = []protoreflect.FieldNumber{
	8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 24, 32, 33, 36, 40, 41, 42, 43, 50, 51, 52, 53, 54, 55, 56, 57,
	60, 61, 62, 63, 66, 67, 68, 69,
}

// TestLaterOperationsDeclareTheirVersion checks that no operation that an older build cannot read has its version.
func TestLaterOperationsDeclareTheirVersion(t *testing.T) {
	ops := (&clusterpb.ControlEntry{}).ProtoReflect().Descriptor().Oneofs().ByName("op").Fields()
	for i := range ops.Len() {
		op := ops.Get(i)
		entry := &clusterpb.ControlEntry{}
		value := entry.ProtoReflect().Mutable(op).Message()
		if version := value.Descriptor().Fields().ByName("version"); version != nil && version.Number() == 1 {
			value.Set(version, protoreflect.ValueOfUint32(2)) // a Raise needs the version that it raises to
		}
		want := uint32(firstVersion)
		if !slices.Contains(firstOps, op.Number()) {
			want = 2
		}
		if _, _, known := kindOf(entry); !known {
			t.Errorf("%s has no row in the table of kinds", op.Name())
		}
		if needed := versionOf(entry); needed != want {
			t.Errorf("%s needs version %d, not %d", op.Name(), needed, want)
		}
	}
}

// TestSnapshotOfANewerVersionIsRefused checks that a build refuses the states and entries of a later build, and reads
// its own.
func TestSnapshotOfANewerVersionIsRefused(t *testing.T) {
	write := func(s *clusterpb.ControlState) []byte {
		var out bytes.Buffer
		_, err := (snapshot{s}).WriteTo(&out)
		assert.NoError(t, err)
		return out.Bytes()
	}
	s := proto.CloneOf(formed(t))
	if first := write(s); !bytes.HasPrefix(first, []byte("belfryc\x01")) {
		t.Errorf("the first version begins with %q", first[:8])
	}
	s.Version = Version
	raised := write(s)
	if !bytes.HasPrefix(raised, []byte{'b', 'e', 'l', 'f', 'r', 'y', 'c', Version}) {
		t.Errorf("version %d begins with %q", Version, raised[:8])
	}
	m := newMachine()
	assert.NoError(t, m.Restore(bytes.NewReader(raised)))
	state, _ := m.watch()
	assert.Equal(t, state.Version, Version, "restored %v", state)
	s.Version = Version + 1
	if err := m.Restore(bytes.NewReader(write(s))); err == nil || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("a later version: %v", err)
	}
	_, _, err := apply(s, marshal(t, &clusterpb.ControlEntry{Version: Version + 1, Op: raise(Version + 1).entry.Op}))
	if !isUnreadable(err) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("an entry of a later version: %v", err)
	}
}
