package control

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
)

// TestLeadersAreBalancedByLoad gives two shards of one leader all the load. One of them gets another leader, after a
// while of measuring, and no third exchange follows.
func TestLeadersAreBalancedByLoad(t *testing.T) {
	s := newShaped(t, "a", "b", "c")
	var busy []uint32
	for _, shard := range s.state.Shards {
		if shard.Preferred == "b" && len(busy) < 2 {
			busy = append(busy, shard.Id)
		}
	}
	long := func(string) reshape.Sight { return reshape.Sight{Up: true, For: time.Hour} }
	var measured loads
	commands := make(map[uint32]uint64)
	now, exchanges := time.UnixMilli(1), 0
	for range 40 {
		for _, shard := range s.state.Shards {
			commands[shard.Id] += 10
		}
		for _, id := range busy {
			commands[id] += 3000
		}
		measured.note(commands, now)
		if op := measured.balance(s.state, reshape.Nodes(s.state, long, reshape.Limits{}), now); op != nil {
			if now.Before(time.UnixMilli(1).Add(loadSure)) {
				t.Error("exchanged too early")
			}
			exchanges++
			s.state = mustApply(t, s.state, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Retarget{Retarget: op}})
			s.arrive()
			s.settle()
		}
		now = now.Add(loadLook)
	}
	leaders := map[string]bool{}
	for _, id := range busy {
		leaders[Shard(s.state, id).Preferred] = true
	}
	if exchanges != 1 || len(leaders) != 2 {
		t.Errorf("%d exchanges, the busy shards are led by %v", exchanges, leaders)
	}
}
