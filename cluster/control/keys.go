package control

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// The limits of keys and namespaces. A change of maxKeys, maxNamespaces or maxSecrets changes the meaning of logs, and
// so needs another command version. Package access has the limits of one key.
const (
	maxKeys       = access.MaxKeys
	maxNamespaces = 1000
	maxSecrets    = 2 // valid ones of a key
	keepExpired   = 30 * 24 * time.Hour
)

// prepareAccess checks a change of a key or a namespace, and sets the time of the leader in it. The error is a
// *task.FieldError if a field breaks a limit.
func prepareAccess(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	now := r.group.cfg.Clock()
	switch op := c.Entry.GetOp().(type) {
	case *clusterpb.ControlEntry_AddKey:
		if err := prepareAdd(op.AddKey, now); err != nil {
			return nil, err
		}
		return nil, checkKeyShare(r.group.State(), op.AddKey.Key)
	case *clusterpb.ControlEntry_RotateKey:
		return nil, prepareRotate(op.RotateKey, now)
	case *clusterpb.ControlEntry_UseKeys:
		return nil, prepareUse(op.UseKeys, now)
	case *clusterpb.ControlEntry_SetNamespace:
		return nil, prepareNamespace(op.SetNamespace.GetNamespace(), now)
	case *clusterpb.ControlEntry_DeleteNamespace:
		return nil, prepareDelete(op.DeleteNamespace, now)
	}
	return nil, nil // nothing in it can be wrong
}

// fieldError returns the error of another package about a field as a *task.FieldError.
func fieldError(err error) error {
	var broken *access.FieldError
	var over *quota.LimitError
	switch {
	case errors.As(err, &broken):
		return &task.FieldError{Field: broken.Field, Detail: broken.Detail, Limit: broken.Limit}
	case errors.As(err, &over):
		return &task.FieldError{Field: "quotas." + over.Field, Detail: over.Detail, Limit: over.Limit}
	}
	return err
}

func prepareAdd(add *clusterpb.AddKey, now time.Time) error {
	key := add.GetKey()
	if err := checkKey(key, now); err != nil {
		return err
	}
	key.CreatedMs, key.UsedMs = now.UnixMilli(), 0
	return nil
}

// checkKey checks a new key. A key without an id or with a broken hash is a mistake of the node that made it, and no
// error of the caller.
func checkKey(key *clusterpb.ApiKey, now time.Time) error {
	if key.GetId() == "" || len(key.Secrets) != 1 || len(key.Secrets[0].GetHash()) != sha256.Size {
		return fmt.Errorf("%w: a new key has an id and one hash", task.ErrNotProposed)
	}
	record := KeyRecord(key)
	if err := access.CheckKeyName(record.Name); err != nil {
		return fieldError(err)
	}
	if err := access.CheckExpires(record.Expires, now); err != nil {
		return fieldError(err)
	}
	if err := access.CheckGrants(record.Grants); err != nil {
		return fieldError(err)
	}
	return checkKeyQuotas(QuotaLimits(key.Quotas))
}

// checkKeyQuotas refuses the quotas that a key cannot have, because a task does not record its key.
func checkKeyQuotas(l quota.Limits) error {
	for _, of := range []struct {
		field string
		value int64
	}{
		{"max_pending", l.MaxPending}, {"max_bytes", l.MaxBytes}, {"max_queues", l.MaxQueues}, {"weight", l.Weight},
	} {
		if of.value != 0 {
			return &task.FieldError{Field: "quotas." + of.field, Detail: "is of a namespace; a key has none"}
		}
	}
	return fieldError(l.Check())
}

func prepareRotate(rotate *clusterpb.RotateKey, now time.Time) error {
	if len(rotate.GetHash()) != sha256.Size {
		return fmt.Errorf("%w: a rotation has a hash", task.ErrNotProposed)
	}
	if err := access.CheckOverlap(time.Duration(rotate.OverlapMs) * time.Millisecond); err != nil {
		return fieldError(err)
	}
	rotate.AtMs = now.UnixMilli()
	return nil
}

// prepareUse refuses an hour that has not begun: a node's clock that is ahead must not hide later uses.
func prepareUse(use *clusterpb.UseKeys, now time.Time) error {
	soon := now.Add(time.Minute).UnixMilli()
	if len(use.GetIds()) > maxKeys || use.HourMs%time.Hour.Milliseconds() != 0 || use.HourMs > soon {
		return fmt.Errorf("%w: uses of %d keys in the hour from %d", task.ErrNotProposed, len(use.GetIds()), use.HourMs)
	}
	return nil
}

// checkKeyShare returns a *task.FieldError for a change that adds a key beyond the share of its namespace. Keys of all
// namespaces, or of several, belong to the cluster and are not counted.
func checkKeyShare(s *clusterpb.ControlState, key *clusterpb.ApiKey) error {
	namespace := soleNamespace(key)
	if namespace == "" || Key(s, key.Id) != nil {
		return nil
	}
	keys := 0
	for _, k := range s.ApiKeys {
		if soleNamespace(k) == namespace {
			keys++
		}
	}
	if share := share(s, maxKeys); share < maxKeys && keys >= share {
		return &task.FieldError{
			Field: "keys", Limit: fmt.Sprintf("%d of one namespace", share),
			Detail: fmt.Sprintf("of %s alone are as many as may be beside other namespaces; revoke one that is not needed",
				namespace),
		}
	}
	return nil
}

// soleNamespace returns the only namespace that a key has grants of, or "".
func soleNamespace(k *clusterpb.ApiKey) (namespace string) {
	for i, g := range k.GetGrants() {
		switch {
		case g.GetNamespace() == access.AllNamespaces:
			return ""
		case i == 0:
			namespace = task.CanonicalNamespace(g.GetNamespace())
		case task.CanonicalNamespace(g.GetNamespace()) != namespace:
			return ""
		}
	}
	return namespace
}

// Key returns a key of the state, or nil if there is none. The caller must not change it.
func Key(s *clusterpb.ControlState, id string) *clusterpb.ApiKey {
	if at, found := findKey(s, id); found {
		return s.ApiKeys[at]
	}
	return nil
}

func findKey(s *clusterpb.ControlState, id string) (at int, found bool) {
	return slices.BinarySearchFunc(s.ApiKeys, id, func(k *clusterpb.ApiKey, id string) int {
		return strings.Compare(k.Id, id)
	})
}

// applyAddKey adds a key, and removes keys long after their expiry.
func applyAddKey(s *clusterpb.ControlState, op *clusterpb.AddKey) error {
	key := op.GetKey()
	if key.GetId() == "" || len(key.Secrets) == 0 || len(key.Grants) == 0 {
		return errors.New("a key has an id, a secret and a grant")
	}
	if old := Key(s, key.Id); old != nil {
		if hasSecret(old, key.Secrets[0].GetHash()) {
			return nil
		}
		return fmt.Errorf("another key has the id %s", key.Id)
	}
	for i, g := range key.Grants {
		if g.GetNamespace() == access.AllNamespaces {
			continue
		}
		if err := checkActive(s, fmt.Sprintf("grants[%d].namespace", i), g.GetNamespace()); err != nil {
			return err
		}
	}
	expired := func(k *clusterpb.ApiKey) bool {
		return k.ExpiresMs != 0 && k.ExpiresMs <= key.CreatedMs-keepExpired.Milliseconds()
	}
	kept := slices.DeleteFunc(slices.Clone(s.ApiKeys), expired)
	if len(kept) >= maxKeys {
		return &task.FieldError{
			Field: "keys", Detail: "are as many as may be; revoke one that is not needed", Limit: fmt.Sprint(maxKeys),
		}
	}
	s.ApiKeys, s.KeysInForce = kept, true
	at, _ := findKey(s, key.Id)
	s.ApiKeys = slices.Insert(s.ApiKeys, at, key)
	s.AccessVersion++
	return nil
}

func hasSecret(key *clusterpb.ApiKey, hash []byte) bool {
	return slices.ContainsFunc(key.Secrets, func(s *clusterpb.KeySecret) bool { return bytes.Equal(s.Hash, hash) })
}

// applyRemoveKey removes a key.
func applyRemoveKey(s *clusterpb.ControlState, op *clusterpb.RemoveKey) error {
	if at, found := findKey(s, op.GetId()); found {
		s.ApiKeys = slices.Delete(slices.Clone(s.ApiKeys), at, at+1)
		s.AccessVersion++
	}
	return nil
}

// applyRotateKey adds a secret to a key, and drops its expired secrets.
func applyRotateKey(s *clusterpb.ControlState, op *clusterpb.RotateKey) error {
	at, found := findKey(s, op.GetId())
	if !found || hasSecret(s.ApiKeys[at], op.Hash) {
		return nil
	}
	key := proto.CloneOf(s.ApiKeys[at])
	if key.ExpiresMs != 0 && key.ExpiresMs <= op.AtMs {
		return fmt.Errorf("key %s has expired; make another one", key.Id)
	}
	key.Secrets = secretsLeft(key.Secrets, op.AtMs, op.AtMs+op.OverlapMs)
	if len(key.Secrets) >= maxSecrets {
		return &task.FieldError{
			Field: "overlap", Limit: fmt.Sprintf("%d valid secrets", maxSecrets),
			Detail: fmt.Sprintf("would leave the key a third secret until %s; an overlap of 0s ends the older ones at once",
				time.UnixMilli(key.Secrets[0].ExpiresMs).UTC().Format(time.RFC3339)),
		}
	}
	key.Secrets = append(key.Secrets, &clusterpb.KeySecret{Hash: op.Hash})
	replaceKeys(s, func(keys []*clusterpb.ApiKey) { keys[at] = key })
	return nil
}

// secretsLeft returns the secrets that are valid after an instant, and ends them at until at the latest. It writes to
// the given secrets.
func secretsLeft(secrets []*clusterpb.KeySecret, after, until int64) []*clusterpb.KeySecret {
	for _, secret := range secrets {
		if secret.ExpiresMs == 0 || secret.ExpiresMs > until {
			secret.ExpiresMs = until
		}
	}
	return slices.DeleteFunc(secrets, func(secret *clusterpb.KeySecret) bool { return secret.ExpiresMs <= after })
}

// applyUseKeys records the hour of a use. It ignores keys that do not exist any more.
func applyUseKeys(s *clusterpb.ControlState, op *clusterpb.UseKeys) error {
	used := make(map[int]*clusterpb.ApiKey)
	for _, id := range op.GetIds() {
		if at, found := findKey(s, id); found && s.ApiKeys[at].UsedMs < op.HourMs {
			used[at] = proto.CloneOf(s.ApiKeys[at])
			used[at].UsedMs = op.HourMs
		}
	}
	if len(used) == 0 {
		return nil
	}
	replaceKeys(s, func(keys []*clusterpb.ApiKey) {
		for at, key := range used {
			keys[at] = key
		}
	})
	return nil
}

// replaceKeys lets edit write to a copy of the list of keys.
func replaceKeys(s *clusterpb.ControlState, edit func(keys []*clusterpb.ApiKey)) {
	s.ApiKeys = slices.Clone(s.ApiKeys)
	edit(s.ApiKeys)
	s.AccessVersion++
}

// applyEnforceKeys puts keys in force.
func applyEnforceKeys(s *clusterpb.ControlState, _ *clusterpb.EnforceKeys) error {
	if !s.KeysInForce {
		s.KeysInForce = true
		s.AccessVersion++
	}
	return nil
}

// keyed returns the answer to a change of the key that an operation names.
func keyed[M proto.Message](
	id func(M) string,
) func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
	return func(c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, op M) {
		old := Key(before, id(op))
		c.Existed, c.Key, c.AccessVersion = old != nil, Key(after, id(op)), after.AccessVersion
		if c.Key == nil {
			c.Key = old
		}
	}
}

func addedKey(add *clusterpb.AddKey) string { return add.GetKey().GetId() }

func answerVersion[M proto.Message](c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, _ M) {
	c.AccessVersion = after.AccessVersion
}

// KeyRecord returns a key in the vocabulary of package access. It shares the lists of patterns with the key.
func KeyRecord(key *clusterpb.ApiKey) access.KeyRecord {
	record := access.KeyRecord{
		ID: key.Id, Name: key.Name,
		Created: timeOf(key.CreatedMs), Expires: timeOf(key.ExpiresMs), LastUsed: timeOf(key.UsedMs),
	}
	for _, g := range key.Grants {
		record.Grants = append(record.Grants, access.Grant{
			Role: access.Role(g.GetRole()), Namespace: g.GetNamespace(), Queues: g.GetQueues(), IDs: g.GetIds(),
		})
	}
	for _, s := range key.Secrets {
		secret := access.KeySecret{Expires: timeOf(s.GetExpiresMs())}
		copy(secret.Hash[:], s.GetHash())
		record.Secrets = append(record.Secrets, secret)
	}
	return record
}

// KeyGrants returns grants as the state has them.
func KeyGrants(grants []access.Grant) []*clusterpb.KeyGrant {
	var all []*clusterpb.KeyGrant
	for _, g := range grants {
		all = append(all, &clusterpb.KeyGrant{
			Role: clusterpb.KeyRole(g.Role), Namespace: g.Namespace, Queues: g.Queues, Ids: g.IDs,
		})
	}
	return all
}

// timeOf returns a time of the state; 0 is the zero time.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// QuotaLimits returns quotas in the vocabulary of package quota. Absent ones limit nothing.
func QuotaLimits(q *clusterpb.Quotas) quota.Limits {
	return quota.Limits{
		MaxPending: int64(q.GetMaxPending()), MaxBytes: int64(q.GetMaxBytes()), MaxPayload: int64(q.GetMaxPayload()),
		SchedulesPerSecond: q.GetSchedulesPerSecond(), CallsPerSecond: q.GetCallsPerSecond(),
		MaxConsumers: int64(q.GetMaxConsumers()), MaxQueues: int64(q.GetMaxQueues()), Weight: int64(q.GetWeight()),
	}
}

// QuotasOf returns limits as the state has them, or nil if they limit nothing.
func QuotasOf(l quota.Limits) *clusterpb.Quotas {
	if l == (quota.Limits{}) {
		return nil
	}
	return &clusterpb.Quotas{
		MaxPending: uint64(l.MaxPending), MaxBytes: uint64(l.MaxBytes), MaxPayload: uint64(l.MaxPayload),
		SchedulesPerSecond: l.SchedulesPerSecond, CallsPerSecond: l.CallsPerSecond,
		MaxConsumers: uint64(l.MaxConsumers), MaxQueues: uint64(l.MaxQueues), Weight: uint32(l.Weight),
	}
}
