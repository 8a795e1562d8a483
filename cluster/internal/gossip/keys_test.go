package gossip

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// keysOf returns the keys of a mesh that has this key, or none if it is nil.
func keysOf(key []byte) [][]byte {
	if key == nil {
		return nil
	}
	return [][]byte{key}
}

func keyOf(letter string) []byte { return bytes.Repeat([]byte(letter), 32) }

func keyring(letters string) (keys [][]byte) {
	for _, letter := range strings.Split(letters, "") {
		keys = append(keys, keyOf(letter))
	}
	return keys
}

// Whatever keys were held before, SetKeys leaves the given ones, with the first in use.
func TestSetKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.Permutation([]string{"a", "b", "c", "d"})
		some := func(label string) [][]byte {
			n := rapid.IntRange(1, 4).Draw(t, label)
			return keyring(strings.Join(letters.Draw(t, label)[:n], ""))
		}
		before, after := some("before"), some("after")
		ring, err := newKeyring(before)
		assert.NoError(t, err)
		held := ring.GetKeys() // a packet's reader still has them
		unchanged := slices.Clone(held)
		assert.NoError(t, setKeys(ring, after))
		got := ring.GetKeys()
		if !bytes.Equal(got[0], after[0]) {
			t.Errorf("%q encrypts, not %q", got[0], after[0])
		}
		slices.SortFunc(got[1:], bytes.Compare)
		slices.SortFunc(after[1:], bytes.Compare)
		if !slices.EqualFunc(got, after, bytes.Equal) {
			t.Errorf("holds %q, not %q", got, after)
		}
		if !slices.EqualFunc(held, unchanged, bytes.Equal) {
			t.Errorf("a reader's keys became %q", held)
		}
	})
}

// Nodes whose keys change in three steps, one node after the other, see each other throughout. A node that has only the
// former key is not let in.
func TestKeysRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		withKeys := func(letters string) func(*Config) {
			return func(c *Config) { c.Keys = keyring(letters) }
		}
		a := m.startWith("a", 1, clusterID, withKeys("o"))
		b := m.startWith("b", 1, clusterID, withKeys("o"), a.addr)
		a.sees(t, "a.1", "b.1")
		joined, members := 0, []*node{a, b}
		for _, letters := range []string{"on", "no", "n"} {
			for _, n := range members {
				assert.NoError(t, n.SetKeys(keyring(letters)))
				joined++
				id := string(rune('a' + 1 + joined)) // a node that knows this step's keys sees the nodes at both steps
				next := m.startWith(id, 1, clusterID, withKeys(letters), a.addr)
				for _, m := range append(members, next) {
					want := []string{"a.1", "b.1", id + ".1"}
					m.sees(t, want...)
				}
				next.stop()
				for _, m := range members {
					m.sees(t, "a.1", "b.1")
				}
			}
		}
		late := m.startWith("z", 1, clusterID, withKeys("o"), a.addr, b.addr)
		n, err := late.list.Join([]string{a.addr})
		assert.Error(t, err, "joined %d nodes with a former key", n)
		assert.Error(t, a.SetKeys(nil), "a mesh lost its last key")
	})
}
