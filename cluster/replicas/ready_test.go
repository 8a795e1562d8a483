package replicas

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// TestCopiesKeepNoNodeFromBeingReady checks that a node is ready while a shard moves to it, and not before it has opened
// the replicas that it had.
func TestCopiesKeepNoNodeFromBeingReady(t *testing.T) {
	s := New(Config{Self: "d"})
	here, there := []string{"a", "d"}, []string{"a", "b"}
	for name, test := range map[string]struct {
		placed *clusterpb.Shard
		ready  bool
	}{
		"elsewhere":             {&clusterpb.Shard{Id: 1, Replicas: there}, true},
		"on its way here":       {&clusterpb.Shard{Id: 1, Replicas: here, Target: here, Joined: joined(4)}, true},
		"arrived":               {&clusterpb.Shard{Id: 1, Replicas: here, Joined: joined(4)}, false},
		"leaves its first node": {&clusterpb.Shard{Id: 1, Replicas: here, Target: there}, false},
	} {
		err := s.Ready(&clusterpb.ControlState{Shards: []*clusterpb.Shard{test.placed}})
		if (err == nil) != test.ready {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func joined(revision uint64) map[string]uint64 { return map[string]uint64{"d": revision} }
