package slab

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// A Counter counts as a map does, with keys close together and far apart, and with enough keys to split its table.
func TestCounterIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counter
		model := map[uint32]uint32{}
		spread := rapid.SampledFrom([]uint32{1, 977, 1 << 19}).Draw(t, "spread")
		for range rapid.IntRange(0, 3).Draw(t, "rounds") {
			first := rapid.Uint32Range(0, 3000).Draw(t, "first")
			n := rapid.Uint32Range(0, 6000).Draw(t, "keys")
			up := rapid.Bool().Draw(t, "up")
			for i := range n {
				key := (first + i) * spread
				switch {
				case up:
					c.Add(key, 1)
					model[key]++
				case model[key] > 0:
					c.Add(key, -1)
					if model[key]--; model[key] == 0 {
						delete(model, key)
					}
				}
			}
			checkCounter(t, &c, model, spread)
		}
		for key, n := range model {
			for range n {
				c.Add(key, -1)
			}
		}
		if c.Len() != 0 {
			t.Fatalf("emptied, and it counts %d keys", c.Len())
		}
	})
}

func checkCounter(t *rapid.T, c *Counter, model map[uint32]uint32, spread uint32) {
	if c.Len() != len(model) {
		t.Fatalf("it counts %d keys, and there are %d", c.Len(), len(model))
	}
	for i := range uint32(10_000) {
		if got := c.Count(i * spread); got != model[i*spread] {
			t.Fatalf("key %d: count %d, want %d", i*spread, got, model[i*spread])
		}
	}
}

// A count that would fall below 0 panics, because it is a broken invariant.
func TestCounterBelowZero(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var c Counter
	c.Add(7, -1)
}

// A Counter takes about as many bytes a key as its comment states.
func TestCounterBytes(t *testing.T) {
	var c Counter
	const n = 1_000_000
	for key := range uint32(n) {
		c.Add(key*3, 1)
	}
	bytes := cap(c.tables) * int(unsafe.Sizeof(table{}))
	for i := range c.tables {
		bytes += len(c.tables[i].cells) * int(unsafe.Sizeof(cell(0)))
	}
	if each := float64(bytes) / n; each > 13 {
		t.Errorf("a key takes %.1f bytes", each)
	}
}
