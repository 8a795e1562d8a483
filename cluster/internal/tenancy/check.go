package tenancy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

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

// Prepare returns the entry of a change that comes to the leader now. It only reads the change. The error is a
// *task.FieldError if a field breaks a limit.
func Prepare(change *clusterpb.AccessChange, now time.Time) (*clusterpb.ControlEntry, error) {
	switch op := change.GetOp().(type) {
	case *clusterpb.AccessChange_AddKey:
		return prepareAdd(proto.CloneOf(op.AddKey), now)
	case *clusterpb.AccessChange_RemoveKey:
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: op.RemoveKey}}, nil
	case *clusterpb.AccessChange_RotateKey:
		return prepareRotate(proto.CloneOf(op.RotateKey), now)
	case *clusterpb.AccessChange_UseKeys:
		return prepareUse(op.UseKeys, now)
	case *clusterpb.AccessChange_EnforceKeys:
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EnforceKeys{EnforceKeys: &clusterpb.EnforceKeys{}}}, nil
	case *clusterpb.AccessChange_SetNamespace:
		return prepareNamespace(op.SetNamespace.GetNamespace(), now)
	case *clusterpb.AccessChange_DeleteNamespace:
		return prepareDelete(proto.CloneOf(op.DeleteNamespace), now)
	}
	return nil, fmt.Errorf("%w: a change that this build does not know", task.ErrNotProposed)
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

func prepareAdd(add *clusterpb.AddKey, now time.Time) (*clusterpb.ControlEntry, error) {
	key := add.GetKey()
	if err := checkKey(key, now); err != nil {
		return nil, err
	}
	key.CreatedMs, key.UsedMs = now.UnixMilli(), 0
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_AddKey{AddKey: add}}, nil
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
		value uint64
	}{
		{"max_pending", l.MaxPending}, {"max_bytes", l.MaxBytes}, {"max_queues", l.MaxQueues}, {"weight", uint64(l.Weight)},
	} {
		if of.value > 0 {
			return &task.FieldError{Field: "quotas." + of.field, Detail: "is of a namespace; a key has none"}
		}
	}
	return field(l.Check())
}

func prepareRotate(rotate *clusterpb.RotateKey, now time.Time) (*clusterpb.ControlEntry, error) {
	if len(rotate.GetHash()) != sha256.Size {
		return nil, fmt.Errorf("%w: a rotation has a hash", task.ErrNotProposed)
	}
	if err := access.CheckOverlap(time.Duration(rotate.OverlapMs) * time.Millisecond); err != nil {
		return nil, field(err)
	}
	rotate.AtMs = now.UnixMilli()
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RotateKey{RotateKey: rotate}}, nil
}

// prepareUse refuses an hour that has not begun: a node's clock that is ahead must not hide later uses.
func prepareUse(use *clusterpb.UseKeys, now time.Time) (*clusterpb.ControlEntry, error) {
	soon := now.Add(time.Minute).UnixMilli()
	if len(use.GetIds()) > MaxKeys || use.HourMs%time.Hour.Milliseconds() != 0 || use.HourMs > soon {
		return nil, fmt.Errorf("%w: uses of %d keys in the hour from %d", task.ErrNotProposed, len(use.GetIds()), use.HourMs)
	}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_UseKeys{UseKeys: use}}, nil
}

func prepareNamespace(given *clusterpb.Namespace, now time.Time) (*clusterpb.ControlEntry, error) {
	if err := access.CheckNamespace("namespace", given.GetName()); err != nil {
		return nil, field(err)
	}
	if err := Limits(given.Quotas).Check(); err != nil {
		return nil, field(err)
	}
	made := &clusterpb.Namespace{
		Name: given.Name, Quotas: proto.CloneOf(given.Quotas), CreatedMs: now.UnixMilli(),
	}
	return &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: &clusterpb.SetNamespace{Namespace: made}},
	}, nil
}

func prepareDelete(del *clusterpb.DeleteNamespace, now time.Time) (*clusterpb.ControlEntry, error) {
	if del.GetName() == "" || del.Operation == "" {
		return nil, fmt.Errorf("%w: a deletion has a namespace and an id", task.ErrNotProposed)
	}
	del.AtMs = now.UnixMilli()
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{DeleteNamespace: del}}, nil
}
