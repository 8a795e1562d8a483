package policies

import (
	"sync"

	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// opened keeps opened policies, since deliveries need them again and again. It forgets them when a policy or a key
// changes, so that no removed secret stays in memory.
type opened struct {
	mu      sync.Mutex
	version uint64 // of the policies
	ring    *seal.Ring
	by      map[*fsmpb.QueuePolicy]*fsmpb.QueuePolicy // by the sealed policy
}

// open returns the policy with its secrets in the clear, or as it is if the ring lacks its key. Only the first call
// returns the error of a policy that cannot be opened.
func (o *opened) open(p *fsmpb.QueuePolicy, version uint64, ring *seal.Ring) (*fsmpb.QueuePolicy, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil || o.version != version || o.ring != ring {
		o.by, o.version, o.ring = map[*fsmpb.QueuePolicy]*fsmpb.QueuePolicy{}, version, ring
	}
	if plain, ok := o.by[p]; ok {
		return plain, nil
	}
	plain, err := ring.Open(p)
	if err != nil {
		plain = p
	}
	o.by[p] = plain
	return plain, err
}
