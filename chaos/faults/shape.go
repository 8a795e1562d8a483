package faults

import (
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
)

// The names of the kinds of group "shape" that change the nodes and the replicas. All but LostDisk are planned: they
// disturb nothing but the load.
const (
	NodeJoins     = "node joins"
	NodeDrains    = "node is drained and resumed"
	NodeLeaves    = "node is removed"
	LostDisk      = "node is replaced after the loss of its disk"
	MoreReplicas  = "replication is 5"
	FewerReplicas = "replication is 3"
	fewestNodes   = 3
	usualReplicas = 3
	shapeLimit    = 3 * time.Minute // for one change, other faults included
)

// shapeKinds returns the kinds of group "shape", which change the nodes of the cluster, the replicas of its shards, and
// its shards. Each waits until the cluster has its new shape. One change is under way at a time.
func shapeKinds() []Kind {
	kind := func(name string, weight int, strike func(context.Context, *striking) error) Kind {
		return shapeKind(name, weight, (*stand.Stand).Shapes, strike)
	}
	return slices.Concat(slotKinds(kind), lostKinds(), []Kind{
		kind(NodeJoins, 6, func(ctx context.Context, s *striking) error { return s.join(ctx) }),
		kind(NodeDrains, 4, func(ctx context.Context, s *striking) error { return s.drain(ctx) }),
		kind(NodeLeaves, 4, func(ctx context.Context, s *striking) error { return s.leave(ctx) }),
		kind(LostDisk, 3, func(ctx context.Context, s *striking) error { return s.loseDisk(ctx) }),
		kind(MoreReplicas, 2, func(ctx context.Context, s *striking) error { return s.replicate(ctx, usualReplicas+2) }),
		kind(FewerReplicas, 2, func(ctx context.Context, s *striking) error { return s.replicate(ctx, usualReplicas) }),
		{
			Name: AimedKill, Group: "shape", Weight: 6, Needs: (*stand.Stand).Shapes,
			Strike: func(ctx context.Context, on Target) error {
				return (&striking{Target: on, kind: AimedKill}).killAtAnyStep(ctx)
			},
		},
	})
}

func shapeKind(
	name string, weight int, needs func(*stand.Stand) error, strike func(context.Context, *striking) error,
) Kind {
	return Kind{
		Name: name, Group: "shape", Weight: weight, Needs: needs,
		Strike: func(ctx context.Context, on Target) error {
			return (&striking{Target: on, kind: name}).reshape(ctx, strike)
		},
	}
}

// shape is claimed by the change of the cluster's shape that is under way.
const shape = "the shape"

func (s *striking) reshape(ctx context.Context, strike func(context.Context, *striking) error) error {
	release, ok := s.Stand.Claim(shape)
	if !ok {
		return ErrBusy
	}
	defer release()
	// The change goes on after the end of the faults' time: a cluster on its way to another shape is not whole.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shapeLimit)
	defer cancel()
	return strike(ctx, s)
}

// planned records a change that disturbs no node until it has ended.
func (s *striking) planned(ctx context.Context, nodes []string, change func() error) error {
	f := s.fault(ctx, nodes, "")
	f.Planned = true
	fault := s.Recorder.Strike(f)
	err := change()
	s.Recorder.Mending(fault)
	if err == nil {
		s.Recorder.Mended(fault)
	}
	return err
}

// join starts a spare node, and waits until it has its replicas. A cluster of one gets two nodes: it gives none of its
// replicas to a second node before there is a third.
func (s *striking) join(ctx context.Context) error {
	joining := s.Stand.Spare()
	count := 1
	if len(s.Stand.Names()) == 1 {
		count = 2
	}
	if len(joining) < count {
		return ErrBusy
	}
	joining = joining[:count]
	return s.planned(ctx, joining, func() error {
		for _, node := range joining {
			if err := s.Stand.Join(node); err != nil {
				return err
			}
		}
		return s.Stand.AwaitMoves(ctx, joining...)
	})
}

// drain moves all replicas off a node, and lets it take some again.
func (s *striking) drain(ctx context.Context) error {
	if len(s.Stand.Names()) <= fewestNodes {
		return ErrBusy
	}
	node := s.some(1)
	return s.planned(ctx, node, func() error {
		if err := s.operate(ctx, client.Drain, node[0]); err != nil {
			return err
		}
		if err := s.operate(ctx, client.Resume, node[0]); err != nil {
			return err
		}
		return s.Stand.AwaitMoves(ctx)
	})
}

// leave removes a node, and stops it.
func (s *striking) leave(ctx context.Context) error {
	node := s.some(1)
	release, err := s.claimWithout(node, fewestNodes)
	if err != nil {
		return err
	}
	defer release()
	return s.planned(ctx, node, func() error {
		if err := s.operate(ctx, client.Remove, node[0]); err != nil {
			return err
		}
		if err := s.Stand.Retire(node[0]); err != nil {
			return err
		}
		return s.Stand.AwaitMoves(ctx)
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
func (s *striking) loseDisk(ctx context.Context) error {
	node := s.some(1)
	release, err := s.claimWithout(node, fewestNodes-1)
	if err != nil {
		return err
	}
	defer release()
	lost, err := s.Stand.ID(ctx, node[0])
	if err != nil || lost == "" {
		return ErrBusy
	}
	fault := s.strikeDead(ctx, node, "dead for %v, with another disk", s.Hold.Round(time.Millisecond))
	if err := s.Stand.LoseDisk(node[0]); err != nil {
		return err
	}
	Wait(ctx, s.Hold)
	s.Recorder.Mending(fault)
	if err := s.Stand.Join(node[0]); err != nil {
		return err
	}
	if err := s.operate(ctx, client.Replace, lost); err != nil {
		return err
	}
	if err := s.Stand.AwaitMoves(ctx, node[0]); err != nil {
		return err
	}
	s.Recorder.Mended(fault)
	return nil
}

func (s *striking) replicate(ctx context.Context, replicas int) error {
	if len(s.Stand.Names()) < replicas {
		return ErrBusy
	}
	return s.planned(ctx, nil, func() error {
		ask := client.OperationRequest{Kind: client.Replication, Replication: replicas}
		if err := s.Stand.Operate(ctx, ask); err != nil {
			return err
		}
		return s.Stand.AwaitMoves(ctx)
	})
}

// operate carries out an operation on a node, by its name or id.
func (s *striking) operate(ctx context.Context, kind client.OperationKind, node string) error {
	if id, err := s.Stand.ID(ctx, node); err == nil && id != "" {
		node = id
	}
	return s.Stand.Operate(ctx, client.OperationRequest{Kind: kind, Node: node})
}
