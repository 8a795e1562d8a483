package stream

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestFramer checks that the framer returns the same lines for any division of the stream into reads, that it reports
// each line over the limit once and in its place, and that it never overwrites a returned line.
func TestFramer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 9000).Draw(t, "limit")
		lengths := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, limit), rapid.IntRange(0, 200_000))
		var want []string
		var stream []byte
		for i := range rapid.IntRange(0, 20).Draw(t, "lines") {
			line := strings.Repeat(string(rune('a'+i%26)), lengths.Draw(t, "length"))
			stream = append(append(stream, line...), '\n')
			if len(line) > limit {
				line = "too long"
			}
			want = append(want, line)
		}
		got := frame(t, limit, stream)
		if !slices.EqualFunc(got, want, func(line []byte, want string) bool { return string(line) == want }) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
	})
}

// frame reads a stream in pieces.
func frame(t *rapid.T, limit int, stream []byte) (handed [][]byte) {
	f := &framer{limit: limit}
	for len(stream) > 0 {
		n := copy(f.room(), stream[:min(len(stream), rapid.IntRange(1, 5000).Draw(t, "n"))])
		f.filled(n)
		stream = stream[n:]
		for {
			line, tooLong, ok := f.next()
			if tooLong {
				line = []byte("too long")
			} else if !ok {
				break
			}
			handed = append(handed, line)
		}
		if cap(f.block) > blockBytes+2*(limit+minRead) {
			t.Fatalf("%d bytes held for lines of at most %d", cap(f.block), limit)
		}
	}
	assert.MustEqual(t, len(f.rest()), 0, "bytes are left")
	return handed
}

func TestOutboxLendsFromTheSharedMemory(t *testing.T) {
	memory := &budget{left: 1 << 20}
	o := NewOutbox(4<<20, 10, memory)
	data := make([]byte, 600<<10)
	if !o.Put(Piece{Data: &data}) || memory.left != 1<<20 { // a single piece is always taken
		t.Fatal("the first piece")
	}
	if o.fits(len(data)+600<<10) || !o.fits(len(data)+100<<10) {
		t.Error("the outbox does not fit the memory")
	}
	if got, last := o.take(); got.Data != &data || !last {
		t.Error("the piece does not come out")
	}
	o.Release()
	assert.Equal(t, memory.left, 1<<20, "memory is never given back")
}

// budget is a memory of left bytes.
type budget struct{ left int }

func (b *budget) Take(n int) bool {
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) Give(n int) { b.left += n }
