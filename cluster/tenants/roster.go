package tenants

import (
	"sync/atomic"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/quota"
)

// roster is the keys and namespaces of one version, ready for lookups. It is never changed, except for the hours of the
// keys.
type roster struct {
	state      *clusterpb.ControlState // the part that it was made from; nil: not known
	keys       map[string]*key
	namespaces map[string]*view.Namespace
}

// key is a key of the roster.
type key struct {
	access.KeyRecord
	limits quota.Limits
	// hour is the last hour of a use here, in hours since 1970. Rosters that follow each other share it.
	hour *atomic.Int64
}

// The states of a namespace. One that is being deleted refuses new work, and is removed in the background.
const (
	active   = "active"
	deleting = "deleting"
)

// known returns the part of a state that a roster is made from.
func known(s *clusterpb.ControlState) *clusterpb.ControlState {
	return &clusterpb.ControlState{
		ApiKeys: s.ApiKeys, KeysInForce: s.KeysInForce, Namespaces: s.Namespaces, AccessVersion: s.AccessVersion,
	}
}

// newRoster returns the roster of a state, which follows another one.
func newRoster(state *clusterpb.ControlState, before *roster) *roster {
	r := &roster{state: state, keys: make(map[string]*key), namespaces: make(map[string]*view.Namespace)}
	if state == nil {
		return r
	}
	for _, k := range state.ApiKeys {
		made := &key{KeyRecord: control.KeyRecord(k), limits: control.QuotaLimits(k.Quotas), hour: new(atomic.Int64)}
		if before != nil && before.keys[k.Id] != nil {
			made.hour = before.keys[k.Id].hour
		}
		r.keys[k.Id] = made
	}
	flawKeepsKeys(r, before)
	for _, n := range control.Namespaces(state) {
		made := namespaceOf(n)
		r.namespaces[n.Name] = &made
	}
	return r
}

func namespaceOf(n *clusterpb.Namespace) view.Namespace {
	made := view.Namespace{Name: n.Name, Quotas: view.Quotas(control.QuotaLimits(n.Quotas)), State: active}
	if n.State == clusterpb.NamespaceState_NAMESPACE_STATE_DELETING {
		made.State = deleting
	}
	if n.CreatedMs != 0 {
		made.CreatedAt = view.InstantOf(n.CreatedMs)
	}
	return made
}
