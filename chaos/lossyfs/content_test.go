package lossyfs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// memory is a backing file in memory.
type memory struct{ b []byte }

func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(b, m.b[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	if end := off + int64(len(b)); end > int64(len(m.b)) {
		m.b = append(m.b, make([]byte, end-int64(len(m.b)))...)
	}
	return copy(m.b[off:], b), nil
}

func (m *memory) Truncate(size int64) error {
	next := make([]byte, size)
	copy(next, m.b)
	m.b = next
	return nil
}

func (m *memory) Close() error { return nil }

// inMemory returns a content with the given durable bytes.
func inMemory(seed uint64, durable []byte) (*content, *memory) {
	m := &memory{bytes.Clone(durable)}
	c := newContent(&room{limit: -1}, rand.New(rand.NewPCG(seed, 0)), int64(len(durable)),
		func() (backing, error) { return m, nil })
	return c, m
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		assert.NoError(t, err)
		return v
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	assert.NoError(t, errors.Join(errs...))
}

func fill(value byte, n int) []byte { return bytes.Repeat([]byte{value}, n) }

const tries = 300

// Every allowed outcome occurs: of an overwritten page the old one, the new one, and a mix of both.
func TestPagesAreLostKeptAndTorn(t *testing.T) {
	before, after := fill(1, pageSize), fill(2, pageSize)
	var old, fresh, both int
	for seed := range uint64(tries) {
		c, m := inMemory(seed, before)
		must[int](t)(c.writeAt(after, 0))
		lost := must[Stats](t)(c.lose())
		switch {
		case bytes.Equal(m.b, before):
			old++
		case bytes.Equal(m.b, after):
			fresh++
		default:
			both++
			assert.Equal(t, lost.TornPages, 1, "seed %d: a page is torn and not counted: %+v", seed, lost)
		}
		for at := 0; at < pageSize; at += sectorSize {
			if sector := m.b[at : at+sectorSize]; !bytes.Equal(sector, fill(sector[0], sectorSize)) {
				t.Fatalf("seed %d: a sector is torn", seed)
			}
		}
	}
	if old < tries/4 || fresh < tries/4 || both < tries/50 {
		t.Errorf("pages after power losses: %d old, %d new, %d torn", old, fresh, both)
	}
}

// A file that has grown may have its old length, its new length, or the length of some of its pages.
func TestSizesMayHaveGrown(t *testing.T) {
	sizes := map[int]int{}
	for seed := range uint64(tries) {
		c, m := inMemory(seed, fill(1, 100))
		must[int](t)(c.writeAt(fill(2, 3*pageSize), 100))
		must[Stats](t)(c.lose())
		sizes[len(m.b)]++
	}
	for _, size := range []int{100, pageSize, 2 * pageSize, 3 * pageSize, 3*pageSize + 100} {
		if sizes[size] == 0 {
			t.Errorf("no file has %d bytes; sizes left: %v", size, sizes)
		}
		delete(sizes, size)
	}
	if len(sizes) > 0 {
		t.Errorf("unexpected sizes: %v", sizes)
	}
}

// A file that was cut and written anew is either the old file, whole, or the cut file, with or without some of the new
// bytes.
func TestCutsAreLostWhole(t *testing.T) {
	before := fill(1, 2*pageSize)
	var whole, empty, cut int
	for seed := range uint64(tries) {
		c, m := inMemory(seed, before)
		check(t, c.truncate(0))
		must[int](t)(c.writeAt(fill(2, pageSize), 0))
		must[Stats](t)(c.lose())
		switch {
		case bytes.Equal(m.b, before):
			whole++
		case len(m.b) == 0:
			empty++
		case len(m.b) == pageSize && bytes.IndexByte(m.b, 1) < 0:
			cut++
		default:
			t.Fatalf("seed %d: %d bytes are left, of them %d old", seed, len(m.b), bytes.Count(m.b, []byte{1}))
		}
	}
	if whole == 0 || empty == 0 || cut == 0 {
		t.Errorf("%d whole, %d empty, %d cut", whole, empty, cut)
	}
}

// A sync that succeeds after a failed one does not write the pages of the failed one, as on Linux.
func TestFailedSyncIsNotMadeGood(t *testing.T) {
	for seed := range uint64(tries) {
		c, m := inMemory(seed, fill(1, 2*pageSize))
		must[int](t)(c.writeAt(fill(2, 2*pageSize), 0))
		c.forsake()
		must[int](t)(c.writeAt(fill(3, 1), pageSize))
		c.sync()
		must[Stats](t)(c.lose())
		rewritten := append([]byte{3}, fill(2, pageSize-1)...)
		if !bytes.Equal(m.b, append(fill(1, pageSize), rewritten...)) {
			t.Fatalf("seed %d: the first page was not written again, the second one was: %d, %d", seed, m.b[0], m.b[pageSize])
		}
	}
}

func TestRoomIsTakenAndGivenBack(t *testing.T) {
	c, _ := inMemory(1, fill(1, pageSize+1))
	c.room.leave(2 * pageSize)
	check(t, c.truncate(100*pageSize)) // a hole takes no room
	if n, err := c.writeAt(fill(2, 4*pageSize), pageSize); n != 3*pageSize || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	assert.ErrorIs(t, c.allocate(50*pageSize, 1, true), syscall.ENOSPC)
	check(t, c.truncate(pageSize))
	if free, used, limited := c.room.left(); free != 3 || used != 1 || !limited {
		t.Errorf("%d free, %d used, limited: %v", free, used, limited)
	}
}
