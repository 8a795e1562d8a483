package control

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// seal returns a policy as it is to be stored. Without a cluster key here it refuses secrets in the clear if the
// cluster seals them already.
func (g *Group) seal(policy *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
	state := g.State()
	sealed, err := g.cfg.Secrets.Seal(policy, Queue(state, policy.Namespace, policy.Queue))
	if err == nil && state.ClusterKey != "" && seal.HasPlain(sealed) {
		err = fmt.Errorf("%w: secrets of this cluster are sealed, and the node that leads the control group has no "+
			"--cluster-key-file with key %s", task.ErrNotProposed, state.ClusterKey)
	}
	return sealed, err
}

func applyUseClusterKey(s *clusterpb.ControlState, use *clusterpb.UseClusterKey) error {
	if use.GetKey() == "" {
		return errors.New("a cluster key has an id")
	}
	s.ClusterKey = use.Key
	return nil
}

// seals names the leader's first cluster key as the one that seals, and seals the policies again, one by one, whose
// secrets are in the clear or under another key. A policy whose key the leader lacks stays as it is.
func (l look) seals() (step, error) {
	key := l.keys.Key()
	if key == "" {
		return step{}, nil
	}
	if l.state.ClusterKey != key {
		use := &clusterpb.UseClusterKey{Key: key}
		return step{what: "seal secrets under cluster key " + key, entry: &clusterpb.ControlEntry{
			Op: &clusterpb.ControlEntry_UseClusterKey{UseClusterKey: use},
		}}, nil
	}
	for _, p := range l.state.Queues {
		if l.keys.IsCurrent(p) {
			continue
		}
		sealed, err := l.keys.Seal(p, p)
		if err != nil {
			continue // the doctor names the key
		}
		set := &clusterpb.SetQueue{Policy: sealed, Expected: &p.Version}
		return step{what: "seal the secrets of queue " + p.Queue + " under cluster key " + key,
			entry: &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetQueue{SetQueue: set}}}, nil
	}
	return step{}, nil
}

// receiptKeyBytes is the length of the secret under which receipts are signed.
const receiptKeyBytes = 32

// applySetReceiptKey gives the cluster its secret of receipts. The first one stays: receipts hold as long as their
// leases.
func applySetReceiptKey(s *clusterpb.ControlState, set *clusterpb.SetReceiptKey) error {
	key := set.GetKey()
	switch {
	case len(key) != receiptKeyBytes:
		return fmt.Errorf("a secret of receipts has %d bytes", receiptKeyBytes)
	case len(s.ReceiptKey) == 0:
		s.ReceiptKey = key
	}
	return nil
}

// receipts draws the secret of receipts once the shards are placed.
func (l look) receipts() (step, error) {
	if len(l.state.ReceiptKey) > 0 {
		return step{}, nil
	}
	key := make([]byte, receiptKeyBytes)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the process instead
	set := &clusterpb.SetReceiptKey{Key: key}
	return step{what: "draw the secret of receipts",
		entry: &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetReceiptKey{SetReceiptKey: set}}}, nil
}
