package backup

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// states are the states of two shards: one of several pieces, and an empty one.
func states() [][]byte {
	long := make([]byte, 2*stateBytes+1000)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range long {
		long[i] = byte(source.Uint32())
	}
	return [][]byte{long, {}}
}

func headerOf(states [][]byte) *clusterpb.BackupHeader {
	h := &clusterpb.BackupHeader{ClusterId: "cluster", Control: &clusterpb.ControlState{ClusterId: "cluster"}}
	for i, s := range states {
		h.Shards = append(h.Shards, &clusterpb.BackupShard{Shard: uint32(i + 1), Index: 7, Bytes: uint64(len(s))})
	}
	return h
}

func written(t testing.TB, states [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	err := errors.Join(w.Pause(), w.Header(headerOf(states)))
	for i, s := range states {
		err = errors.Join(err, w.Section(uint32(i+1), bytes.NewReader(s)), w.Pause())
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if w.Bytes() != uint64(out.Len()) || len(w.Sum()) != 64 {
		t.Errorf("%d bytes of %d, sum %q", w.Bytes(), out.Len(), w.Sum())
	}
	return out.Bytes()
}

// readAll returns the states of a backup.
func readAll(r io.Reader) (states [][]byte, err error) {
	b, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	for {
		if _, err := b.Next(); errors.Is(err, io.EOF) {
			return states, nil
		} else if err != nil {
			return states, err
		}
		state, err := io.ReadAll(b)
		if err != nil {
			return states, err
		}
		states = append(states, state)
	}
}

func TestBackupIsReadAsWritten(t *testing.T) {
	want := states()
	data := written(t, want)
	got, err := readAll(bytes.NewReader(data))
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d states, %v", len(got), err)
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("state %d differs", i)
		}
	}
	b, err := NewReader(bytes.NewReader(data))
	if err == nil {
		err = b.Drain()
	}
	if err != nil || b.Bytes() != uint64(len(data)) || len(b.Sum()) != 64 {
		t.Errorf("drained: %v, %d bytes", err, b.Bytes())
	}
}

// Every byte matters: a backup with one changed byte is refused, and so is one that ends early or too late.
func TestDamageIsFound(t *testing.T) {
	data := written(t, [][]byte{[]byte("the state of one shard"), {}, []byte("another")})
	for at := range data {
		changed := bytes.Clone(data)
		changed[at] ^= 1 << (at % 8)
		_, err := readAll(bytes.NewReader(changed))
		var damage *DamageError
		switch {
		case err == nil:
			t.Fatalf("byte %d was changed, and the backup was read", at)
		case at < len(magic):
			assert.ErrorIs(t, err, errNoBackup, "byte %d", at)
		case !errors.As(err, &damage):
			t.Errorf("byte %d: %v", at, err)
		case damage.At > uint64(at) || damage.In == "":
			t.Errorf("byte %d was changed: %v", at, err)
		}
	}
	for length := range data {
		if _, err := readAll(bytes.NewReader(data[:length])); err == nil {
			t.Fatalf("%d bytes of %d were read as a whole backup", length, len(data))
		}
	}
	_, err := readAll(bytes.NewReader(append(bytes.Clone(data), 0)))
	assert.Error(t, err, "a byte behind the end was not noticed")
}

// Whole pieces that are lost, repeated or exchanged are noticed, although each of them is sound.
func TestMovedPiecesAreFound(t *testing.T) {
	data := written(t, states())
	b, err := NewReader(bytes.NewReader(data))
	assert.NoError(t, err)
	if _, err := b.Next(); err != nil {
		t.Fatal(err)
	}
	first, size := b.Bytes(), uint64(headBytes+stateBytes+sumBytes)
	one, two := data[first:first+size], data[first+size:first+2*size]
	for name, middle := range map[string][]byte{
		"lost": two, "repeated": bytes.Join([][]byte{one, one}, nil), "exchanged": bytes.Join([][]byte{two, one}, nil),
	} {
		changed := bytes.Join([][]byte{data[:first], middle, data[first+2*size:]}, nil)
		var damage *DamageError
		if _, err := readAll(bytes.NewReader(changed)); !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriterWantsAllSections(t *testing.T) {
	w := NewWriter(io.Discard)
	assert.NoError(t, w.Header(headerOf(states())))
	assert.Error(t, w.Close(), "a backup without its sections was closed")
	assert.Error(t, w.Section(2, bytes.NewReader(nil)), "the second section was written first")
	assert.Error(t, w.Section(1, bytes.NewReader([]byte("short"))), "a section shorter than its cut was written")
}

func TestReaderSaysWhatIsNoBackup(t *testing.T) {
	for _, data := range []string{"", "short", "a page of another kind", "belfryb\x02 later"} {
		_, err := NewReader(bytes.NewReader([]byte(data)))
		assert.ErrorIs(t, err, errNoBackup, "%q", data)
	}
}

func TestHeaderOfAWholeCluster(t *testing.T) {
	whole := func() *clusterpb.BackupHeader {
		return &clusterpb.BackupHeader{
			Control: &clusterpb.ControlState{Slots: []*clusterpb.SlotRange{{End: 1000, Shard: 1}, {First: 1000, End: task.Slots, Shard: 2}}},
			Shards: []*clusterpb.BackupShard{
				{Shard: 1, Lacks: []*fsmpb.SlotRange{{First: 1000, End: 2000}}}, {Shard: 2}, {Shard: 3},
			},
		}
	}
	assert.Equal(t, CheckHeader(whole()), nil)
	for name, change := range map[string]func(h *clusterpb.BackupHeader){
		"no map":        func(h *clusterpb.BackupHeader) { h.Control = nil },
		"a gap":         func(h *clusterpb.BackupHeader) { h.Control.Slots[1].First++ },
		"no end":        func(h *clusterpb.BackupHeader) { h.Control.Slots[1].End-- },
		"no section":    func(h *clusterpb.BackupHeader) { h.Shards = h.Shards[:1] },
		"twice":         func(h *clusterpb.BackupHeader) { h.Shards[2].Shard = 1 },
		"a moved slot":  func(h *clusterpb.BackupHeader) { h.Shards[0].Lacks[0].First = 999 },
		"a coming slot": func(h *clusterpb.BackupHeader) { h.Shards[1].Lacks = h.Shards[0].Lacks },
	} {
		h := whole()
		change(h)
		assert.Error(t, CheckHeader(h), "%s: no error", name)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(written(f, [][]byte{[]byte("state"), {}}))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readAll(bytes.NewReader(data)); err == nil && !bytes.HasPrefix(data, []byte(magic)) {
			t.Error("it was read as a backup")
		}
	})
}
