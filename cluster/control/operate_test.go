package control

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// TestImpossibleOperationsAreRefused checks that the leader refuses an operation that could not end, with the
// reason, and begins nothing for a preview.
func TestImpossibleOperationsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := &groups{random: rand.New(rand.NewPCG(1, 14)), members: make(map[uint32]*clusterpb.Membership)}
		g := single(t, shards)
		refused := func(op *clusterpb.Operation) {
			t.Helper()
			op.Id = "refused"
			var impossible *task.ImpossibleError
			if _, err := g.change(t.Context(), asking(begin(op))); !errors.As(err, &impossible) || impossible.Reason == "" {
				t.Errorf("%v: %v", op, err)
			}
		}
		factor := func(n uint32) *clusterpb.Operation {
			return &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REPLICATION, Replication: n}
		}
		refused(&clusterpb.Operation{Kind: leave, Node: "a"})
		refused(&clusterpb.Operation{Kind: drain, Node: "b"})
		for _, n := range []uint32{0, 2, 3, 9} {
			refused(factor(n))
		}
		for _, id := range []string{"b", "c"} {
			if err := g.Register(t.Context(), &clusterpb.Node{Id: id, CommandVersion: Version, Boot: 1}); err != nil {
				t.Fatal(err)
			}
		}
		preview := asking(begin(&clusterpb.Operation{Id: "preview", Kind: leave, Node: "a"}))
		preview.Preview = true
		changed, err := g.Change(t.Context(), preview)
		op, moves := changed.GetOperation(), changed.GetMoves()
		if err != nil || op.Total != 12 || len(moves) == 0 || moves[0].Shard != 1 || moves[0].Action != "add" || moves[0].Node != "b" {
			t.Errorf("preview: %v, %v, %v", op, moves, err)
		}
		if ops := g.State().Operations; len(ops) > 0 {
			t.Errorf("begun: %v", ops)
		}
	})
}
