package tenancy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Refusal is the error of a change that the state does not allow. Its text is for the caller.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

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

// AddKey adds a key, and removes keys long after their expiry.
func AddKey(s *clusterpb.ControlState, op *clusterpb.AddKey) error {
	key := op.GetKey()
	if key.GetId() == "" || len(key.Secrets) == 0 || len(key.Grants) == 0 {
		return errors.New("a key has an id, a secret and a grant")
	}
	if old := Key(s, key.Id); old != nil {
		if hasSecret(old, key.Secrets[0].GetHash()) {
			return nil
		}
		return refuse("another key has the id %s", key.Id)
	}
	for i, g := range key.Grants {
		if g.GetNamespace() == access.AllNamespaces {
			continue
		}
		if err := CheckActive(s, fmt.Sprintf("grants[%d].namespace", i), g.GetNamespace()); err != nil {
			return err
		}
	}
	expired := func(k *clusterpb.ApiKey) bool {
		return k.ExpiresMs != 0 && k.ExpiresMs <= key.CreatedMs-KeepExpired.Milliseconds()
	}
	kept := slices.DeleteFunc(slices.Clone(s.ApiKeys), expired)
	if len(kept) >= MaxKeys {
		return &task.FieldError{
			Field: "keys", Detail: "are as many as may be; revoke one that is not needed", Limit: fmt.Sprint(MaxKeys),
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

// RemoveKey removes a key.
func RemoveKey(s *clusterpb.ControlState, op *clusterpb.RemoveKey) error {
	if at, found := findKey(s, op.GetId()); found {
		s.ApiKeys = slices.Delete(slices.Clone(s.ApiKeys), at, at+1)
		s.AccessVersion++
	}
	return nil
}

// RotateKey adds a secret to a key, and drops its expired secrets.
func RotateKey(s *clusterpb.ControlState, op *clusterpb.RotateKey) error {
	at, found := findKey(s, op.GetId())
	if !found || hasSecret(s.ApiKeys[at], op.Hash) {
		return nil
	}
	key := proto.CloneOf(s.ApiKeys[at])
	if key.ExpiresMs != 0 && key.ExpiresMs <= op.AtMs {
		return refuse("key %s has expired; make another one", key.Id)
	}
	key.Secrets = rest(key.Secrets, op.AtMs, op.AtMs+op.OverlapMs)
	if len(key.Secrets) >= MaxSecrets {
		return &task.FieldError{
			Field: "overlap", Limit: fmt.Sprintf("%d valid secrets", MaxSecrets),
			Detail: fmt.Sprintf("would leave the key a third secret until %s; an overlap of 0s ends the older ones at once",
				time.UnixMilli(key.Secrets[0].ExpiresMs).UTC().Format(time.RFC3339)),
		}
	}
	key.Secrets = append(key.Secrets, &clusterpb.KeySecret{Hash: op.Hash})
	replaceKeys(s, func(keys []*clusterpb.ApiKey) { keys[at] = key })
	return nil
}

// rest returns the secrets that are valid after an instant, and ends them at until at the latest. It writes to the
// given secrets.
func rest(secrets []*clusterpb.KeySecret, after, until int64) []*clusterpb.KeySecret {
	for _, secret := range secrets {
		if secret.ExpiresMs == 0 || secret.ExpiresMs > until {
			secret.ExpiresMs = until
		}
	}
	return slices.DeleteFunc(secrets, func(secret *clusterpb.KeySecret) bool { return secret.ExpiresMs <= after })
}

// UseKeys records the hour of a use. It ignores keys that do not exist any more.
func UseKeys(s *clusterpb.ControlState, op *clusterpb.UseKeys) error {
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

// EnforceKeys puts keys in force.
func EnforceKeys(s *clusterpb.ControlState, _ *clusterpb.EnforceKeys) error {
	if !s.KeysInForce {
		s.KeysInForce = true
		s.AccessVersion++
	}
	return nil
}
