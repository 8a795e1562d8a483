package faults

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
)

const (
	fewestNodes   = 3
	usualReplicas = 3
	manyShards    = 12
	shapeLimit    = 3 * time.Minute // for one change, other faults included
)

// planned records a change that disturbs no node until it has ended.
func (s *striking) planned(nodes []string, change func() error) error {
	fault := s.begin(nodes, func(f *history.Fault) { f.Planned = true }, "")
	err := change()
	s.Recorder.Mending(fault)
	return s.mended(fault, err)
}

// operate carries out an operation, and then waits until no shard moves.
func (s *striking) operate(ask client.OperationRequest) error {
	if err := s.Stand.Operate(s.ctx, ask); err != nil {
		return err
	}
	return s.Stand.AwaitMoves(s.ctx)
}

// onNode returns an operation on a node, given by its name or id.
func (s *striking) onNode(kind client.OperationKind, node string) client.OperationRequest {
	if id, err := s.Stand.ID(s.ctx, node); err == nil && id != "" {
		node = id
	}
	return client.OperationRequest{Kind: kind, Node: node}
}

// join starts a spare node, and waits until it has its replicas. A cluster of one gets two nodes: it gives none of its
// replicas to a second node before there is a third.
func (s *striking) join([]string) error {
	joining := s.Stand.Spare()
	count := 1
	if len(s.Stand.Names()) == 1 {
		count = 2
	}
	if len(joining) < count {
		return ErrBusy
	}
	joining = joining[:count]
	return s.planned(joining, func() error {
		for _, node := range joining {
			if err := s.Stand.Join(node); err != nil {
				return err
			}
		}
		return s.Stand.AwaitMoves(s.ctx, joining...)
	})
}

// drain moves all replicas off a node, and lets it take some again.
func (s *striking) drain(node []string) error {
	if len(s.Stand.Names()) <= fewestNodes {
		return ErrBusy
	}
	return s.planned(node, func() error {
		if err := s.Stand.Operate(s.ctx, s.onNode(client.Drain, node[0])); err != nil {
			return err
		}
		return s.operate(s.onNode(client.Resume, node[0]))
	})
}

// leave removes a node, and stops it.
func (s *striking) leave(node []string) error {
	release, err := s.claimWithout(node, fewestNodes)
	if err != nil {
		return err
	}
	defer release()
	return s.planned(node, func() error {
		if err := s.Stand.Operate(s.ctx, s.onNode(client.Remove, node[0])); err != nil {
			return err
		}
		if err := s.Stand.Retire(node[0]); err != nil {
			return err
		}
		return s.Stand.AwaitMoves(s.ctx)
	})
}

// claimWithout takes a node that can leave the cluster: others are enough.
func (s *striking) claimWithout(node []string, enough int) (release func(), err error) {
	if len(s.Stand.Names()) <= enough {
		return nil, ErrBusy
	}
	return s.claim(node)
}

// loseDisk kills a node and deletes its data. The same machine joins as a new node, and replaces the lost one.
func (s *striking) loseDisk(node []string) error {
	release, err := s.claimWithout(node, fewestNodes-1)
	if err != nil {
		return err
	}
	defer release()
	lost, err := s.Stand.ID(s.ctx, node[0])
	if err != nil || lost == "" {
		return ErrBusy
	}
	fault := s.begin(node, restarts, "dead for %v, with another disk", s.Hold)
	if err := s.Stand.Retire(node[0]); err != nil {
		return err
	}
	s.hold(fault, s.Hold)
	if err := s.Stand.Join(node[0]); err != nil {
		return err
	}
	if err := s.Stand.Operate(s.ctx, s.onNode(client.Replace, lost)); err != nil {
		return err
	}
	return s.mended(fault, s.Stand.AwaitMoves(s.ctx, node[0]))
}

func replicate(replicas int) func(*striking, []string) error {
	return func(s *striking, _ []string) error {
		if len(s.Stand.Names()) < replicas {
			return ErrBusy
		}
		ask := client.OperationRequest{Kind: client.Replication, Replication: replicas}
		return s.planned(nil, func() error { return s.operate(ask) })
	}
}

// split moves half of the slots of a shard to a new one.
func (s *striking) split([]string) error {
	leaders, err := s.Stand.Leaders(s.ctx)
	if err != nil || len(leaders) == 0 || len(leaders) >= manyShards {
		return ErrBusy
	}
	shard := s.Shard
	if shard == 0 {
		shard = uint32(1 + s.Rand.IntN(len(leaders)))
	}
	return s.moveSlots(client.OperationRequest{Kind: client.Split, Shard: int(shard)})
}

// balance gives all shards as many slots, and makes new shards up to the number; 0: none.
func balance(shards int) func(*striking, []string) error {
	return func(s *striking, _ []string) error {
		leaders, err := s.Stand.Leaders(s.ctx)
		if err != nil || shards > 0 && len(leaders) >= shards {
			return ErrBusy
		}
		return s.moveSlots(client.OperationRequest{Kind: client.Balance, To: shards})
	}
}

// shift moves the upper half of a shard's slots to another shard.
func (s *striking) shift([]string) error {
	view, err := s.Stand.View(s.ctx)
	if err != nil || len(view.Shards) < 2 {
		return ErrBusy
	}
	from := s.Rand.IntN(len(view.Shards))
	to := (from + 1 + s.Rand.IntN(len(view.Shards)-1)) % len(view.Shards)
	slots := upperHalf(view.Shards[from].Slots)
	if slots == "" {
		return ErrBusy
	}
	return s.moveSlots(client.OperationRequest{Kind: client.MoveSlots, Slots: slots, To: int(view.Shards[to].ID)})
}

func (s *striking) moveSlots(ask client.OperationRequest) error {
	return s.planned(nil, func() error { return s.operate(ask) })
}

// upperHalf returns the upper half of some slots, as an operation names them; "" if there is one slot or none.
func upperHalf(slots []client.Slots) string {
	count := uint32(0)
	for _, r := range slots {
		count += r.End - r.First
	}
	var ranges []string
	left := count / 2
	for i := len(slots) - 1; i >= 0 && left > 0; i-- {
		r := slots[i]
		n := min(left, r.End-r.First)
		ranges = append([]string{fmt.Sprintf("%d-%d", r.End-n, r.End-1)}, ranges...)
		left -= n
	}
	return strings.Join(ranges, ",")
}

// survivable marks a fault that ends the processes of its nodes and leaves a majority of each shard's replicas.
func survivable(f *history.Fault) { f.Restarted, f.Survivable = true, true }

// loseNode kills a node and deletes its data, and waits until others have its replicas, without an operator's call.
// Then the operator comes: the lost node is taken out of the list, and a new one with its name joins.
func (s *striking) loseNode(node []string) error {
	release, err := s.claimWithout(node, usualReplicas)
	if err != nil {
		return err
	}
	defer release()
	lost, err := s.Stand.ID(s.ctx, node[0])
	if err != nil || lost == "" {
		return ErrBusy
	}
	fault := s.begin(node, survivable, "dead, with its disk, until others have its replicas")
	if err := s.Stand.Retire(node[0]); err != nil {
		return err
	}
	if err := s.Stand.AwaitReplicas(s.ctx, lost); err != nil {
		return err
	}
	s.Recorder.Mending(fault)
	if err := s.Stand.Operate(s.ctx, client.OperationRequest{Kind: client.Replace, Node: lost}); err != nil {
		return err
	}
	if err := s.Stand.Join(node[0]); err != nil {
		return err
	}
	return s.mended(fault, s.Stand.AwaitMoves(s.ctx, node[0]))
}

// loseZone kills all nodes of a zone at once, waits until the others have their replicas, and starts them again. It
// returns when the replicas are spread over all zones again.
func (s *striking) loseZone([]string) error {
	nodes := pick(s.Rand, s.Stand.Zones())
	release, err := s.claimWithout(nodes, usualReplicas+len(nodes)-1)
	if err != nil {
		return err
	}
	defer release()
	var lost []string
	for _, node := range nodes {
		id, err := s.Stand.ID(s.ctx, node)
		if err != nil || id == "" {
			return ErrBusy
		}
		lost = append(lost, id)
	}
	fault := s.begin(nodes, survivable, "dead until others have their replicas")
	if err := s.sigkill(nodes); err != nil {
		return err
	}
	if err := s.Stand.AwaitReplicas(s.ctx, lost...); err != nil {
		return err
	}
	s.Recorder.Mending(fault)
	if err := s.start(fault, nodes); err != nil {
		return err
	}
	return s.Stand.AwaitReplicas(s.ctx)
}
