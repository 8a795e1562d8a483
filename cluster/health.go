package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/internal/compare"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/memory"
)

func (n *Node) newHealth() *health.Nodes {
	return health.New(health.Config{
		Self: n.ID(),
		Replicas: func() (all []health.Replica) {
			for _, s := range n.replicas.All() {
				all = append(all, s)
			}
			return all
		},
		Resting: func() bool {
			return n.control.State().GetOrders()[n.ID()] == clusterpb.NodeOrder_NODE_ORDER_REST
		},
		DiskLow: func() bool { return n.disk.Low() }, MemoryFull: func() string { return n.memory.Full() },
		Outvoted: func(shard uint32, node string) bool { return n.comparer.Outvoted(shard, node) },
	})
}

func (n *Node) newComparer() *compare.Comparer {
	return compare.New(compare.Config{
		Self: n.ID(), Judged: n.health.Judge, Ask: n.askCompare,
		Replicas: func() (all []compare.Replica) {
			for _, s := range n.replicas.All() {
				all = append(all, s)
			}
			return all
		},
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

// askCompare asks another node about its replicas. The answer has a report of the node's health, too.
func (n *Node) askCompare(
	ctx context.Context, node string, r *clusterpb.CompareRequest,
) (*clusterpb.CompareReply, error) {
	reply, err := n.peers.rpc(node).Compare(ctx, r)
	if err == nil {
		n.health.Hear(node, reply.GetHealth())
	}
	return reply, err
}

func (s service) Compare(_ context.Context, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
	reply := s.n.comparer.Report(r)
	reply.Health = s.n.health.Report()
	return reply, nil
}

func (n *Node) watchDisk() *disk.Watch {
	return disk.New(disk.Config{
		Space: n.cfg.DiskSpace, Reserve: n.cfg.MinFreeDisk, Changed: n.health.Judge,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

func (n *Node) watchMemory() *memory.Watch {
	return memory.New(memory.Config{
		Limit: n.cfg.MemoryLimit, Heap: n.cfg.Heap, Machine: n.cfg.Machine, Tasks: n.tasksInMemory,
		Changed: n.health.Judge, Logger: n.limited, Registerer: n.cfg.Registerer,
	})
}

// tasksInMemory returns the memory that the tasks of all replicas here take.
func (n *Node) tasksInMemory() memory.Tasks {
	var sum memory.Tasks
	for _, s := range n.replicas.All() {
		held, free, coming := s.Memory()
		sum.Held, sum.Free, sum.Coming = sum.Held+held, sum.Free+free, sum.Coming+coming
	}
	return sum
}
