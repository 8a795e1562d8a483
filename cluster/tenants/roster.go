package tenants

import (
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/quota"
)

// roster is the keys and namespaces of one version, ready for lookups. It is never changed, except for the hours of the
// keys.
type roster struct {
	state      *clusterpb.ControlState // the part that it was made from; nil: not known
	keys       map[string]*key
	namespaces map[string]*Namespace
}

// key is a key of the roster.
type key struct {
	access.KeyRecord
	limits quota.Limits
	// hour is the last hour of a use here, in hours since 1970. Rosters that follow each other share it.
	hour *atomic.Int64
}

// Namespace describes a namespace.
type Namespace struct {
	Name     string
	Limits   quota.Limits
	Created  time.Time // zero: the default namespace, which always exists
	Deleting bool      // it refuses new work, and is removed in the background
}

// known returns the part of a state that a roster is made from.
func known(s *clusterpb.ControlState) *clusterpb.ControlState {
	return &clusterpb.ControlState{
		ApiKeys: s.ApiKeys, KeysInForce: s.KeysInForce, Namespaces: s.Namespaces, AccessVersion: s.AccessVersion,
	}
}

// newRoster returns the roster of a state, which follows another one.
func newRoster(state *clusterpb.ControlState, before *roster) *roster {
	r := &roster{state: state, keys: make(map[string]*key), namespaces: make(map[string]*Namespace)}
	if state == nil {
		return r
	}
	for _, k := range state.ApiKeys {
		made := &key{KeyRecord: tenancy.Record(k), limits: tenancy.Limits(k.Quotas), hour: new(atomic.Int64)}
		if before != nil && before.keys[k.Id] != nil {
			made.hour = before.keys[k.Id].hour
		}
		r.keys[k.Id] = made
	}
	flawKeepsKeys(r, before)
	for _, n := range tenancy.List(state) {
		made := namespaceOf(n)
		r.namespaces[n.Name] = &made
	}
	return r
}

func namespaceOf(n *clusterpb.Namespace) Namespace {
	made := Namespace{
		Name: n.Name, Limits: tenancy.Limits(n.Quotas),
		Deleting: n.State == clusterpb.NamespaceState_NAMESPACE_STATE_DELETING,
	}
	if n.CreatedMs != 0 {
		made.Created = time.UnixMilli(n.CreatedMs).UTC()
	}
	return made
}
