package faults

import (
	"context"

	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
)

// The names of the kinds of group "shape" after which the cluster makes lost replicas anew, without an operator's call.
const (
	LostNode = "node is lost for good"
	LostZone = "zone is lost for a while"
)

// lostKinds returns the kinds of group "shape" that take nodes away for longer than the cluster waits for them. The
// other nodes still have a majority of each shard's replicas.
func lostKinds() []Kind {
	return []Kind{
		shapeKind(LostNode, 3, (*stand.Stand).Replaces, func(ctx context.Context, s *striking) error {
			return s.loseNode(ctx)
		}),
		shapeKind(LostZone, 3, (*stand.Stand).HasZones, func(ctx context.Context, s *striking) error {
			return s.loseZone(ctx)
		}),
	}
}

// loseNode kills a node and deletes its data, and waits until others have its replicas. Then the operator comes: the
// lost node is taken out of the list, and a new one with its name joins.
func (s *striking) loseNode(ctx context.Context) error {
	node := s.some(1)
	release, err := s.claimWithout(node, usualReplicas)
	if err != nil {
		return err
	}
	defer release()
	lost, err := s.Stand.ID(ctx, node[0])
	if err != nil || lost == "" {
		return ErrBusy
	}
	fault := s.strikeSurvivable(ctx, node, "dead, with its disk, until others have its replicas")
	if err := s.Stand.LoseDisk(node[0]); err != nil {
		return err
	}
	if err := s.Stand.AwaitReplicas(ctx, lost); err != nil {
		return err
	}
	s.Recorder.Mending(fault)
	if err := s.Stand.Operate(ctx, client.OperationRequest{Kind: client.Replace, Node: lost}); err != nil {
		return err
	}
	if err := s.Stand.Join(node[0]); err != nil {
		return err
	}
	if err := s.Stand.AwaitMoves(ctx, node[0]); err != nil {
		return err
	}
	s.Recorder.Mended(fault)
	return nil
}

// loseZone kills all nodes of a zone at once, waits until the others have their replicas, and starts them again. It
// returns when the replicas are spread over all zones again.
func (s *striking) loseZone(ctx context.Context) error {
	zones := s.Stand.Zones()
	nodes := zones[s.Rand.IntN(len(zones))]
	release, err := s.claimWithout(nodes, usualReplicas+len(nodes)-1)
	if err != nil {
		return err
	}
	defer release()
	var lost []string
	for _, node := range nodes {
		id, err := s.Stand.ID(ctx, node)
		if err != nil || id == "" {
			return ErrBusy
		}
		lost = append(lost, id)
	}
	fault := s.strikeSurvivable(ctx, nodes, "dead until others have their replicas")
	if err := s.Stand.Kill(nodes...); err != nil {
		return err
	}
	if err := s.Stand.AwaitReplicas(ctx, lost...); err != nil {
		return err
	}
	s.Recorder.Mending(fault)
	if err := s.start(fault, nodes); err != nil {
		return err
	}
	return s.Stand.AwaitReplicas(ctx)
}

// strikeSurvivable records a fault that ends the processes of its nodes and leaves a majority of each shard's replicas.
func (s *striking) strikeSurvivable(ctx context.Context, nodes []string, how string) int {
	f := s.fault(ctx, nodes, "%s", how)
	f.Restarted, f.Survivable = true, true
	return s.Recorder.Strike(f)
}
