package shard

import (
	"context"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
)

// Policies is what the cluster has decided about its queues, as far as this node knows. Its methods are called often.
type Policies interface {
	// Policy returns a queue's policy, nil if it has none. It must not be changed, and its secrets not be logged.
	Policy(namespace, queue string) *fsmpb.QueuePolicy
	// Watch returns all of them, and a channel that is closed when there may be newer ones.
	Watch() (Policed, <-chan struct{})
}

// Policed is every queue's policy at one version.
type Policed struct {
	Queues  []*fsmpb.QueuePolicy // sorted by namespace and queue; neither they nor the list may be changed
	Version uint64               // rises with every change
	// Known is false after a start until this node has heard what was decided while it was away. Until then the policies
	// may be old ones, or none: no rule may be changed because of them, and what the shard's rules hold stays held.
	Known bool
}

// Limits lends permits to begin attempts of a queue that is limited as a whole. See Shard.Lend for the other side.
type Limits interface {
	// Borrow asks the shard that owns the queue, wherever it is led. It may take as long as the owner makes borrowers
	// wait, and returns within some seconds. An error lends nothing.
	Borrow(ctx context.Context, ask Borrow) (Loan, error)
}

// Borrow is what a borrower says to the owner of a queue's limits.
type Borrow = lend.Borrow

// Loan is what the owner answers.
type Loan = lend.Loan

// noPolicies: no queue has one.
type noPolicies struct{}

func (noPolicies) Policy(string, string) *fsmpb.QueuePolicy { return nil }
func (noPolicies) Watch() (Policed, <-chan struct{})        { return Policed{Known: true}, nil }

func (s *Shard) policyOf(namespace, queue string) *fsmpb.QueuePolicy {
	return s.cfg.Policies.Policy(namespace, queue)
}
