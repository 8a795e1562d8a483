package tenancy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// The limits of the state. A change of MaxKeys, MaxNamespaces or MaxSecrets changes the meaning of logs, and so needs
// another command version. Package access has the limits of one key.
const (
	MaxKeys       = access.MaxKeys
	MaxNamespaces = 1000
	MaxSecrets    = 2 // valid ones of a key
	KeepExpired   = 30 * 24 * time.Hour
)

// Prepare checks an entry that a node asks for, and sets the times of the leader in it. The error is a *task.FieldError
// if a field breaks a limit.
func Prepare(entry *clusterpb.ControlEntry, now time.Time) error {
	switch op := entry.GetOp().(type) {
	case *clusterpb.ControlEntry_AddKey:
		return prepareAdd(op.AddKey, now)
	case *clusterpb.ControlEntry_RotateKey:
		return prepareRotate(op.RotateKey, now)
	case *clusterpb.ControlEntry_UseKeys:
		return prepareUse(op.UseKeys, now)
	case *clusterpb.ControlEntry_SetNamespace:
		return prepareNamespace(op.SetNamespace.GetNamespace(), now)
	case *clusterpb.ControlEntry_DeleteNamespace:
		return prepareDelete(op.DeleteNamespace, now)
	}
	return nil // nothing in it can be wrong
}

// field returns the error of another package about a field as a *task.FieldError.
func field(err error) error {
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
	record := Record(key)
	if err := access.CheckKeyName(record.Name); err != nil {
		return field(err)
	}
	if err := access.CheckExpires(record.Expires, now); err != nil {
		return field(err)
	}
	if err := access.CheckGrants(record.Grants); err != nil {
		return field(err)
	}
	return checkKeyQuotas(Limits(key.Quotas))
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
	return field(l.Check())
}

func prepareRotate(rotate *clusterpb.RotateKey, now time.Time) error {
	if len(rotate.GetHash()) != sha256.Size {
		return fmt.Errorf("%w: a rotation has a hash", task.ErrNotProposed)
	}
	if err := access.CheckOverlap(time.Duration(rotate.OverlapMs) * time.Millisecond); err != nil {
		return field(err)
	}
	rotate.AtMs = now.UnixMilli()
	return nil
}

// prepareUse refuses an hour that has not begun: a node's clock that is ahead must not hide later uses.
func prepareUse(use *clusterpb.UseKeys, now time.Time) error {
	soon := now.Add(time.Minute).UnixMilli()
	if len(use.GetIds()) > MaxKeys || use.HourMs%time.Hour.Milliseconds() != 0 || use.HourMs > soon {
		return fmt.Errorf("%w: uses of %d keys in the hour from %d", task.ErrNotProposed, len(use.GetIds()), use.HourMs)
	}
	return nil
}

func prepareNamespace(given *clusterpb.Namespace, now time.Time) error {
	if err := access.CheckNamespace("namespace", given.GetName()); err != nil {
		return field(err)
	}
	if err := Limits(given.Quotas).Check(); err != nil {
		return field(err)
	}
	given.State, given.CreatedMs = clusterpb.NamespaceState_NAMESPACE_STATE_ACTIVE, now.UnixMilli()
	return nil
}

func prepareDelete(del *clusterpb.DeleteNamespace, now time.Time) error {
	if del.GetName() == "" || del.Operation == "" {
		return fmt.Errorf("%w: a deletion has a namespace and an id", task.ErrNotProposed)
	}
	del.AtMs = now.UnixMilli()
	return nil
}
