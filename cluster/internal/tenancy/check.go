package tenancy

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// The limits of keys and namespaces. A change of MaxKeys or MaxNamespaces changes the meaning of logs, and so needs
// another command version.
const (
	MaxKeys         = 1000
	MaxNamespaces   = 1000
	MaxSecrets      = 2   // valid ones of a key
	MaxNameRunes    = 100 // of a key
	MaxGrants       = 20  // of a key
	MaxPatterns     = 20  // in each list of a grant
	MaxPatternBytes = 255
	MaxWeight       = 100
	MaxRate         = 1e9 // of a quota, each second
	MaxOverlap      = 30 * 24 * time.Hour
	KeepExpired     = 30 * 24 * time.Hour
)

// AllNamespaces is the namespace of a grant that reaches all of them.
const AllNamespaces = "*"

// hour is the precision of the last use of a key.
const hour = time.Hour

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
		return prepareNamespace(proto.CloneOf(op.SetNamespace), now)
	case *clusterpb.AccessChange_DeleteNamespace:
		return prepareDelete(proto.CloneOf(op.DeleteNamespace), now)
	}
	return nil, fmt.Errorf("%w: a change that this build does not know", task.ErrNotProposed)
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
	switch {
	case key.GetId() == "" || len(key.Secrets) != 1 || len(key.Secrets[0].GetHash()) != sha256.Size:
		return fmt.Errorf("%w: a new key has an id and one hash", task.ErrNotProposed)
	case key.ExpiresMs != 0 && key.ExpiresMs <= now.UnixMilli():
		return &task.FieldError{Field: "expires_at", Detail: "is in the past"}
	case len(key.Grants) == 0 || len(key.Grants) > MaxGrants:
		return &task.FieldError{
			Field: "grants", Detail: fmt.Sprintf("has %d entries", len(key.Grants)), Limit: fmt.Sprint("1 to ", MaxGrants),
		}
	}
	if err := checkKeyName(key.Name); err != nil {
		return err
	}
	for i, g := range key.Grants {
		if err := checkGrant(fmt.Sprintf("grants[%d]", i), g); err != nil {
			return err
		}
	}
	return checkQuotas(key.Quotas)
}

func checkKeyName(name string) error {
	limit := fmt.Sprintf("1 to %d characters", MaxNameRunes)
	switch n := utf8.RuneCountInString(name); {
	case n == 0 || n > MaxNameRunes:
		return &task.FieldError{Field: "name", Detail: fmt.Sprintf("is %d characters long", n), Limit: limit}
	case !utf8.ValidString(name):
		return &task.FieldError{Field: "name", Detail: "is not UTF-8", Limit: limit}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &task.FieldError{Field: "name", Detail: "has a control character", Limit: limit}
	}
	return nil
}

func checkGrant(field string, g *clusterpb.KeyGrant) error {
	if clusterpb.KeyRole_name[int32(g.GetRole())] == "" || g.GetRole() == clusterpb.KeyRole_KEY_ROLE_UNSPECIFIED {
		return &task.FieldError{
			Field: field + ".role", Detail: "is none", Limit: "read, schedule, consume, operate or admin",
		}
	}
	if g.Namespace != AllNamespaces {
		if err := task.CheckNamespace(field+".namespace", g.Namespace); err != nil {
			return err
		}
	}
	if err := checkPatterns(field+".queues", g.Queues); err != nil {
		return err
	}
	return checkPatterns(field+".ids", g.Ids)
}

// checkPatterns checks names, and prefixes that end in an asterisk.
func checkPatterns(field string, patterns []string) error {
	if n := len(patterns); n > MaxPatterns {
		return &task.FieldError{Field: field, Detail: fmt.Sprintf("has %d entries", n), Limit: fmt.Sprint(MaxPatterns)}
	}
	for i, p := range patterns {
		at := fmt.Sprintf("%s[%d]", field, i)
		if len(p) > MaxPatternBytes {
			return &task.FieldError{
				Field: at, Detail: fmt.Sprintf("is %d bytes long", len(p)), Limit: fmt.Sprint(MaxPatternBytes),
			}
		}
		prefix, open := strings.CutSuffix(p, "*")
		if open && prefix == "" {
			continue
		}
		if err := task.CheckName(at, prefix); err != nil {
			err.Limit += ", with a * at the end for a prefix"
			return err
		}
	}
	return nil
}

func checkQuotas(q *clusterpb.Quotas) error {
	for _, rate := range []struct {
		field string
		value float64
	}{
		{"quotas.schedules_per_second", q.GetSchedulesPerSecond()}, {"quotas.calls_per_second", q.GetCallsPerSecond()},
	} {
		if math.IsNaN(rate.value) || rate.value < 0 || rate.value > MaxRate {
			return &task.FieldError{Field: rate.field, Detail: "is out of range", Limit: fmt.Sprint("0 to ", int64(MaxRate))}
		}
	}
	if q.GetWeight() > MaxWeight {
		return &task.FieldError{Field: "quotas.weight", Detail: "is out of range", Limit: fmt.Sprint("1 to ", MaxWeight)}
	}
	return nil
}

func prepareRotate(rotate *clusterpb.RotateKey, now time.Time) (*clusterpb.ControlEntry, error) {
	if len(rotate.GetHash()) != sha256.Size {
		return nil, fmt.Errorf("%w: a rotation has a hash", task.ErrNotProposed)
	}
	if rotate.OverlapMs < 0 || rotate.OverlapMs > MaxOverlap.Milliseconds() {
		return nil, &task.FieldError{Field: "overlap", Detail: "is out of range", Limit: "0s to 720h"}
	}
	rotate.AtMs = now.UnixMilli()
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_RotateKey{RotateKey: rotate}}, nil
}

// prepareUse refuses an hour that has not begun: a node's clock that is ahead must not hide later uses.
func prepareUse(use *clusterpb.UseKeys, now time.Time) (*clusterpb.ControlEntry, error) {
	if len(use.GetIds()) > MaxKeys || use.HourMs%hour.Milliseconds() != 0 || use.HourMs > now.Add(time.Minute).UnixMilli() {
		return nil, fmt.Errorf("%w: uses of %d keys in the hour from %d", task.ErrNotProposed, len(use.GetIds()), use.HourMs)
	}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_UseKeys{UseKeys: use}}, nil
}

func prepareNamespace(set *clusterpb.SetNamespace, now time.Time) (*clusterpb.ControlEntry, error) {
	given := set.GetNamespace()
	if err := task.CheckNamespace("namespace", given.GetName()); err != nil {
		return nil, err
	}
	if err := checkQuotas(given.Quotas); err != nil {
		return nil, err
	}
	set.Namespace = &clusterpb.Namespace{Name: given.Name, Quotas: given.Quotas, CreatedMs: now.UnixMilli()}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: set}}, nil
}

func prepareDelete(del *clusterpb.DeleteNamespace, now time.Time) (*clusterpb.ControlEntry, error) {
	if del.GetName() == "" || del.Operation == "" {
		return nil, fmt.Errorf("%w: a deletion has a namespace and an id", task.ErrNotProposed)
	}
	del.AtMs = now.UnixMilli()
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{DeleteNamespace: del}}, nil
}
