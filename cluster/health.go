package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/health"
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
		Ask: func(ctx context.Context, node string, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
			return n.peers.rpc(node).Compare(ctx, r)
		},
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

func (s service) Compare(_ context.Context, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
	return s.n.health.Compare(r), nil
}

func (n *Node) watchDisk() *headroom.Disk {
	return headroom.NewDisk(headroom.DiskConfig{
		Space: n.cfg.DiskSpace, Reserve: n.cfg.MinFreeDisk, Changed: n.health.Judge,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

func (n *Node) watchMemory() *headroom.Memory {
	return headroom.NewMemory(headroom.MemoryConfig{
		Limit: n.cfg.MemoryLimit, Heap: n.cfg.Heap, Machine: n.cfg.Machine, Tasks: n.tasksInMemory,
		Changed: n.health.Judge, Logger: n.limited, Registerer: n.cfg.Registerer,
	})
}

// tasksInMemory returns the memory that the tasks of all replicas here take.
func (n *Node) tasksInMemory() headroom.Tasks {
	var sum headroom.Tasks
	for _, s := range n.replicas.All() {
		held, free, coming := s.Memory()
		sum.Held, sum.Free, sum.Coming = sum.Held+held, sum.Free+free, sum.Coming+coming
	}
	return sum
}
