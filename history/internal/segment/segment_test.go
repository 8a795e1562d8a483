package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
)

// memory is a file in memory. Its writes fail beyond the room.
type memory struct {
	data []byte
	room int // 0: no limit

	syncing error // of Sync
}

var errFull = errors.New("full")

func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	n := len(p)
	if m.room > 0 {
		n = min(n, max(0, m.room-int(at)))
	}
	if end := int(at) + n; end > len(m.data) {
		m.data = append(m.data, make([]byte, end-len(m.data))...)
	}
	copy(m.data[at:], p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (m *memory) Truncate(size int64) error { m.data = m.data[:size]; return nil }
func (m *memory) Sync() error               { return m.syncing }
func (m *memory) Close() error              { return nil }

func event(index uint64) *historypb.Event {
	return &historypb.Event{
		Index: index, AtMs: int64(1000 * index), Type: historypb.Type_TYPE_FIRED,
		Namespace: fmt.Sprintf("ns-%d", index%3), Task: fmt.Sprintf("task-%d", index/4), Queue: "mail",
		Labels: []*historypb.Label{{Name: "tenant", Value: "acme"}}, DueMs: int64(1000*index) - 3, LatenessMs: 3,
	}
}

func events(from, to uint64) []*historypb.Event {
	var all []*historypb.Event
	for i := from; i <= to; i++ {
		all = append(all, event(i))
	}
	return all
}

func batch(events []*historypb.Event) *Batch {
	b := &Batch{}
	for _, e := range events {
		b.Add(e)
	}
	return b
}

// written returns a segment with a number of blocks of ten events, and the ends of the blocks.
func written(t testing.TB, blocks int) (w *Writer, m *memory, ends []int) {
	t.Helper()
	m = &memory{}
	w, err := Create(m)
	assert.NoError(t, err)
	for i := range uint64(blocks) {
		_, err := w.Append(batch(events(10*i+1, 10*i+10)))
		assert.NoError(t, err)
		ends = append(ends, len(m.data))
	}
	return w, m, ends
}

// readAll returns the events of all blocks, and the number of blocks that are gaps or unreadable.
func readAll(t testing.TB, data []byte) (all []*historypb.Event, missing int) {
	t.Helper()
	blocks, err := LoadBlocks(bytes.NewReader(data), int64(len(data)))
	assert.NoError(t, err)
	for _, b := range blocks {
		got, err := Read(bytes.NewReader(data), b)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if err != nil || b.Count == 0 {
			missing++
		}
		all = append(all, got...)
	}
	return all, missing
}

func wantEvents(t testing.TB, got, want []*historypb.Event) {
	t.Helper()
	same := func(a, b *historypb.Event) bool { return proto.Equal(a, b) }
	if slices.EqualFunc(got, want, same) {
		return
	}
	assert.MustEqual(t, cmp.Diff(want, got, protocmp.Transform()), "", "events differ (-want +got)")
}

func TestRoundTrip(t *testing.T) {
	w, m, _ := written(t, 5)
	got, missing := readAll(t, m.data)
	wantEvents(t, got, events(1, 50))
	assert.NoError(t, w.Seal())
	got, sealed := readAll(t, m.data)
	wantEvents(t, got, events(1, 50))
	c, err := Load(bytes.NewReader(m.data), int64(len(m.data)))
	if err != nil || !c.Sealed || c.First.Index != 1 || c.Last.Index != 50 || missing+sealed != 0 {
		t.Fatalf("contents %+v, %d blocks missing, error %v", c, missing+sealed, err)
	}
	if u := c.Usage["ns-1"]; u.Bytes <= 0 || u.First.Index != 1 || u.Last.Index != 49 {
		t.Fatalf("usage of ns-1: %v", u)
	}
}

// TestEqualFieldsAreLeftOut has events with all fields, each with one of few values, so that an event shares any of its
// fields with the one before.
func TestEqualFieldsAreLeftOut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []*historypb.Event
	full := 0
	for i := range uint64(2000) {
		e := &historypb.Event{}
		m := e.ProtoReflect()
		for f := range m.Descriptor().Fields().Len() {
			setAny(m, m.Descriptor().Fields().Get(f), random.IntN(3))
		}
		e.Index, e.Number, e.Same = 1+i/7, uint32(i%7), 0
		full += e.SizeVT()
		all = append(all, e)
	}
	b := batch(all)
	assert.Equal(t, b.Raw() < full*3/4, true, "%d bytes of %d are left", b.Raw(), full)
	m := &memory{}
	w, err := Create(m)
	assert.NoError(t, err)
	_, err = w.Append(b)
	assert.NoError(t, err)
	got, _ := readAll(t, m.data)
	wantEvents(t, got, all)
	for index := uint64(0); index < 280; index += 23 {
		after, err := b.After(historypb.Position{Index: index})
		assert.NoError(t, err)
		from := max(0, 7*int(index)-7)
		wantEvents(t, after[len(after)-(len(all)-from):], all[from:])
	}
}

// setAny gives a field one of a few values, of which 0 is none.
func setAny(m protoreflect.Message, f protoreflect.FieldDescriptor, value int) {
	switch kind := f.Kind(); {
	case value == 0:
	case f.IsList():
		label := &historypb.Label{Name: "tenant", Value: fmt.Sprint(value)}
		m.Mutable(f).List().Append(protoreflect.ValueOfMessage(label.ProtoReflect()))
	case kind == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(fmt.Sprint("value-", value)))
	case kind == protoreflect.EnumKind:
		m.Set(f, protoreflect.ValueOfEnum(protoreflect.EnumNumber(value)))
	case kind == protoreflect.Int32Kind:
		m.Set(f, protoreflect.ValueOfInt32(int32(value)))
	case kind == protoreflect.Uint32Kind:
		m.Set(f, protoreflect.ValueOfUint32(uint32(value)))
	case kind == protoreflect.Uint64Kind:
		m.Set(f, protoreflect.ValueOfUint64(uint64(value)))
	default:
		m.Set(f, protoreflect.ValueOfInt64(int64(value)))
	}
}

// TestWholeEventsAreRead reads events as builds wrote them that left out no field.
func TestWholeEventsAreRead(t *testing.T) {
	want := events(1, 20)
	var raw []byte
	for _, e := range want {
		data, err := e.MarshalVT()
		assert.NoError(t, err)
		raw = append(binary.AppendUvarint(raw, uint64(len(data))), data...)
	}
	got, err := unmarshal(raw)
	assert.NoError(t, err)
	wantEvents(t, got, want)
}

func TestTornEndLeavesWholeBlocks(t *testing.T) {
	_, m, ends := written(t, 4)
	for size := range len(m.data) + 1 {
		whole := 0
		for whole < len(ends) && ends[whole] <= size {
			whole++
		}
		got, missing := readAll(t, m.data[:size])
		wantEvents(t, got, events(1, uint64(10*whole)))
		if missing > 0 {
			t.Fatalf("cut at %d: %d blocks missing, want a torn end", size, missing)
		}
	}
}

func TestTornEndIsWrittenOver(t *testing.T) {
	_, m, ends := written(t, 3)
	for size := ends[1]; size < ends[2]; size++ {
		torn := &memory{data: bytes.Clone(m.data[:size])}
		c, err := Load(bytes.NewReader(torn.data), int64(size))
		assert.NoError(t, err)
		w, err := Resume(torn, c)
		assert.NoError(t, err)
		if _, err := w.Append(batch(events(21, 22))); err != nil {
			t.Fatal(err)
		}
		got, missing := readAll(t, torn.data)
		wantEvents(t, got, events(1, 22))
		if missing > 0 {
			t.Fatalf("cut at %d: %d blocks missing", size, missing)
		}
	}
}

func TestDamagedByteLosesOneBlock(t *testing.T) {
	w, m, ends := written(t, 4)
	assert.NoError(t, w.Seal())
	for _, sealed := range []bool{false, true} {
		data := bytes.Clone(m.data)
		if !sealed {
			data = data[:ends[3]]
		}
		for at := range data {
			data[at] ^= 0x55
			got, _ := readAll(t, data)
			checkLoss(t, got, at, ends, sealed)
			data[at] ^= 0x55
		}
	}
}

// checkLoss wants all events except for those of the block with the damage.
func checkLoss(t *testing.T, got []*historypb.Event, at int, ends []int, sealed bool) {
	t.Helper()
	var want []*historypb.Event
	start := len(header)
	for i, end := range ends {
		headOnly := sealed && at < end // the directory may spare a block whose frame alone is damaged
		if damaged := at >= start && at < end; !damaged || headOnly && len(got) == 10*len(ends) {
			want = append(want, events(uint64(10*i+1), uint64(10*i+10))...)
		}
		start = end
	}
	if len(got) != len(want) || len(want) < 10*(len(ends)-1) {
		t.Fatalf("damage at %d (sealed: %v) leaves %d events, want %d", at, sealed, len(got), len(want))
	}
	wantEvents(t, got, want)
}

func TestDamageInTheMiddleIsAGap(t *testing.T) {
	_, m, ends := written(t, 3)
	m.data[ends[0]] ^= 1
	c, err := Load(bytes.NewReader(m.data), int64(len(m.data)))
	assert.NoError(t, err)
	gap := c.Blocks[1]
	if c.Corrupt != 1 || gap.Count != 0 || gap.First.Position() != (historypb.Position{Index: 10, Number: 1}) ||
		gap.Last.Index != 20 {
		t.Fatalf("%d damaged places, block %v; want a gap from 10.1 to 20", c.Corrupt, gap)
	}
}

func TestFailedWriteIsRepeated(t *testing.T) {
	w, m, _ := written(t, 1)
	full := len(m.data)
	for extra := 1; extra < 40; extra++ {
		m.room = full + extra
		if _, err := w.Append(batch(events(11, 300))); !errors.Is(err, errFull) {
			t.Fatalf("error %v with room for %d bytes, want %v", err, extra, errFull)
		}
	}
	if err := w.Seal(); !errors.Is(err, errFull) {
		t.Fatalf("Seal: %v, want %v", err, errFull)
	}
	m.room = 0
	_, err := w.Append(batch(events(11, 12)))
	assert.NoError(t, err)
	got, missing := readAll(t, m.data)
	wantEvents(t, got, events(1, 12))
	if missing > 0 {
		t.Fatalf("%d blocks missing", missing)
	}
}

// A summary that was written but not synced must not outlive the blocks that follow it.
func TestAppendAfterAFailedSeal(t *testing.T) {
	w, m, _ := written(t, 20)
	m.syncing = errFull
	if err := w.Seal(); !errors.Is(err, errFull) {
		t.Fatalf("Seal: %v, want %v", err, errFull)
	}
	_, err := w.Append(batch(events(201, 201)))
	assert.NoError(t, err)
	got, missing := readAll(t, m.data)
	wantEvents(t, got, events(1, 201))
	if missing > 0 {
		t.Fatalf("%d blocks missing", missing)
	}
}

func TestFilterHasItsKeys(t *testing.T) {
	keys := batch(events(1, 2000)).keys
	filter := newFilter(keys)
	for _, k := range keys {
		if !k.In(filter) {
			t.Fatalf("key %x is not found", k)
		}
	}
	found := 0
	const others = 100_000
	for i := range others {
		if TaskKey("other", fmt.Sprint(i)).In(filter) {
			found++
		}
	}
	if found > others/500 {
		t.Fatalf("%d of %d other keys seem to be in the filter", found, others)
	}
	t.Logf("%d of %d other keys seem to be in the filter", found, others)
}

func FuzzLoad(f *testing.F) {
	w, m, _ := written(f, 2)
	f.Add(bytes.Clone(m.data))
	assert.NoError(f, w.Seal())
	f.Add(m.data)
	f.Add([]byte(header))
	f.Add([]byte(header + blockMagic + "\xff\xff\xff\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Load(bytes.NewReader(data), int64(len(data)))
		assert.NoError(t, err, "a read from memory failed")
		if c.Size > int64(len(data)) {
			t.Fatalf("the contents have %d bytes of %d", c.Size, len(data))
		}
		all, _ := LoadBlocks(bytes.NewReader(data), int64(len(data)))
		for _, b := range all {
			if _, err := Read(bytes.NewReader(data), b); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("a read from memory failed: %v", err)
			}
		}
	})
}
