//go:build chaos

package reshape

import "github.com/belfryhq/belfry/fsm/flaw"

// flawOrders puts the removal of voters that do not lead first, if the flaw is on.
func (s Shard) flawOrders(rules []rule) []rule {
	if !flaw.EarlyRemoval.On() {
		return rules
	}
	early := func() (Step, Wait) {
		step, waits := s.remove()
		if step.Change.GetRemove() == s.Group.Leader {
			return Step{}, Wait{}
		}
		return step, waits
	}
	return append([]rule{early}, rules...)
}
