package tenants

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/quota"
)

// KeySpec describes a key to be made.
type KeySpec struct {
	Name    string
	Grants  []access.Grant
	Expires time.Time // zero: never
	Limits  quota.Limits
}

var _ access.Source = (*Tenants)(nil)

// NewKey makes a key, and puts keys in force. Only the caller gets the text: no other node and no disk does. The error
// is a *task.FieldError if a field breaks a limit, a *task.ImpossibleError while a node has an older build, and
// wraps task.ErrNotProposed or task.ErrUnknown if the control group does not answer. A context without a deadline gives
// the call ten seconds.
func (t *Tenants) NewKey(ctx context.Context, spec KeySpec) (text string, made access.KeyRecord, err error) {
	id, text := access.NewKey()
	hash := access.Hash(text)
	added := &clusterpb.ApiKey{
		Id: id, Name: spec.Name, Grants: control.KeyGrants(spec.Grants), Quotas: control.QuotasOf(spec.Limits),
		Secrets: []*clusterpb.KeySecret{{Hash: hash[:]}},
	}
	if !spec.Expires.IsZero() {
		added.ExpiresMs = spec.Expires.UnixMilli()
	}
	changed, err := t.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: added}},
	})
	if err != nil {
		return "", access.KeyRecord{}, err
	}
	return text, control.KeyRecord(changed.Key), nil
}

// RotateKey gives a key another text. The older one is valid for the overlap from now on. The error is also a
// *task.FieldError if two older texts would be valid, and a *task.ImpossibleError if the key has expired; see
// NewKey.
func (t *Tenants) RotateKey(
	ctx context.Context, id string, overlap time.Duration,
) (text string, rotated access.KeyRecord, existed bool, err error) {
	text = access.NewSecret(id)
	hash := access.Hash(text)
	changed, err := t.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_RotateKey{RotateKey: &clusterpb.RotateKey{
			Id: id, Hash: hash[:], OverlapMs: overlap.Milliseconds(),
		}},
	})
	if err != nil || changed.Key == nil { // Existed may be false after a repeat on a node that did not know the key
		return "", access.KeyRecord{}, false, err
	}
	return text, control.KeyRecord(changed.Key), true, nil
}

// RemoveKey removes a key, and reports whether there was one; errors are those of NewKey. Keys stay in force.
func (t *Tenants) RemoveKey(ctx context.Context, id string) (existed bool, err error) {
	changed, err := t.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: id}},
	})
	return changed.GetExisted(), err
}

// Enforce puts keys in force, because a node has credentials of another kind; errors are those of NewKey.
func (t *Tenants) Enforce(ctx context.Context) error {
	if t.KeysInForce() {
		return nil
	}
	_, err := t.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_EnforceKeys{EnforceKeys: &clusterpb.EnforceKeys{}},
	})
	return err
}

// Keys returns the keys that this node knows, by id. Those that have expired lately are among them.
func (t *Tenants) Keys() []access.KeyRecord {
	var all []access.KeyRecord
	for _, k := range t.roster.Load().keys {
		all = append(all, k.KeyRecord)
	}
	slices.SortFunc(all, func(a, b access.KeyRecord) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// KeyLimits returns the quotas of a key, which are empty for an unknown one.
func (t *Tenants) KeyLimits(id string) quota.Limits {
	if k := t.roster.Load().keys[id]; k != nil {
		return k.limits
	}
	return quota.Limits{}
}

// KeysVersion returns a number that changes with each change of a key, or 0 while the node does not know the keys.
func (t *Tenants) KeysVersion() uint64 {
	if r := t.roster.Load(); r.state != nil {
		return r.state.AccessVersion + 1
	}
	return 0
}

// KeysInForce reports whether calls need credentials, as far as this node knows.
func (t *Tenants) KeysInForce() bool { return t.roster.Load().state.GetKeysInForce() }

// Key returns the key with an id.
func (t *Tenants) Key(id string) (record access.KeyRecord, exists bool) {
	k := t.roster.Load().keys[id]
	if k == nil {
		return access.KeyRecord{}, false
	}
	return k.KeyRecord, true
}

// KeyUsed notes the use of a key, for a later report.
func (t *Tenants) KeyUsed(id string) {
	k := t.roster.Load().keys[id]
	if k == nil {
		return
	}
	if hour := hourOf(time.Now()); k.hour.Load() < hour {
		k.hour.Store(hour)
	}
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }
