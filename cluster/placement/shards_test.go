package placement

import "testing"

func TestShards(t *testing.T) {
	for _, c := range []struct {
		nodes      int
		processors float64
		want       int
	}{
		{1, 0.5, 3}, {1, 2, 3}, {1, 8, 12}, {3, 1, 3}, {3, 3, 3}, {3, 4, 6}, {3, 6.5, 9}, {3, 64, 12}, {5, 2, 5}, {5, 16, 20},
	} {
		if got := Shards(c.nodes, c.processors); got != c.want {
			t.Errorf("%d nodes of %v processors: %d shards, not %d", c.nodes, c.processors, got, c.want)
		}
	}
}
