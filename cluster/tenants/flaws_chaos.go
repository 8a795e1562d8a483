//go:build chaos

package tenants

import "github.com/belfryhq/belfry/fsm/flaw"

// flawKeepsKeys leaves the keys of the roster before in the one that follows it, revoked ones too.
func flawKeepsKeys(r, before *roster) {
	if !flaw.KeptKey.On() || before == nil {
		return
	}
	for id, k := range before.keys {
		if r.keys[id] == nil {
			r.keys[id] = k
		}
	}
}
