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

// open returns the policy with its secrets in the clear, or as it is if the ring has not its key.
func (o *opened) open(p *fsmpb.QueuePolicy, version uint64, ring *seal.Ring) *fsmpb.QueuePolicy {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil || o.version != version || o.ring != ring {
		o.by, o.version, o.ring = map[*fsmpb.QueuePolicy]*fsmpb.QueuePolicy{}, version, ring
	}
	plain, ok := o.by[p]
	if !ok {
		var err error
		if plain, err = ring.Open(p); err != nil {
			plain = p // the doctor and last_error name the key
		}
		o.by[p] = plain
	}
	return plain
}
