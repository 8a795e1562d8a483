package store

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func sortPlaces(all []duePlace) []duePlace {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b duePlace) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return sorted
}

// wantPlaces wants a set to have these sorted places and no others, in blocks that are half empty at most on average.
func wantPlaces(t *testing.T, s *places, want []duePlace, mostBytes int) {
	t.Helper()
	first, rest := s.from(duePlace{})
	got := slices.Clone(first)
	for _, block := range rest {
		got = append(got, block...)
	}
	assert.Equal(t, slices.Equal(got, want), true, "%d places of %d are the same", len(got), len(want))
	assert.Equal(t, s.count, len(want), "the count")
	if bytes := int(s.bytes()); len(want) > 0 && bytes > mostBytes*len(want)+10_000 {
		t.Errorf("%d bytes for each of %d places, want %d at most", bytes/len(want), len(want), mostBytes)
	}
}

func TestPlaces(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name      string
		key       func(i uint64) dueKey
		mostBytes int // a place, of the full set
	}{
		{"rising", func(i uint64) dueKey { return dueKey(i << 12) }, 14},
		{"rising instants of random slots", func(i uint64) dueKey { return dueKey(i>>6<<12 | random.Uint64N(4096)) }, 27},
		{"falling", func(i uint64) dueKey { return dueKey((1 << 30) - i<<12) }, 27},
		{"random", func(uint64) dueKey { return dueKey(random.Uint64()) }, 20},
		{"one instant", func(uint64) dueKey { return dueKey(random.Uint64N(4096)) }, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, all := places{}, []duePlace{}
			for i := range uint64(30_000) {
				p := c.key(i).place(0, handle(i+1))
				all = append(all, p)
				s.add(p)
			}
			wantPlaces(t, &s, sortPlaces(all), c.mostBytes)
			for i := 0; i < len(all); i += 501 {
				first, _ := s.from(all[i])
				assert.Equal(t, s.has(all[i]) && first[0] == all[i], true, "the set has a place")
			}
			random.Shuffle(len(all)/2, func(i, j int) { all[i], all[j] = all[j], all[i] })
			for len(all) > 0 {
				gone := all[:min(len(all), 3750)]
				for _, p := range gone {
					assert.Equal(t, s.remove(p), true, "a place is removed")
				}
				assert.Equal(t, s.has(gone[0]) || s.remove(gone[0]), false, "a place is gone")
				all = all[len(gone):]
				wantPlaces(t, &s, sortPlaces(all), 60)
			}
			wantPlaces(t, &s, nil, 0)
		})
	}
}
