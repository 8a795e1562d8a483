package httpapi

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// fakeAccess holds the fake's keys and namespaces.
type fakeAccess struct {
	keys       []access.KeyRecord     // by id
	quotas     map[string]view.Quotas // of keys
	namespaces map[string]view.Namespace
	lasting    bool // RemoveKey answers as usual, and removes none
}

func (f *fakeBackend) Keys() []access.KeyRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.access.keys)
}

func (f *fakeBackend) NewKey(_ context.Context, r KeyRequest) (string, access.KeyRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return "", access.KeyRecord{}, f.readErr
	}
	id, text := access.NewKey()
	key := access.KeyRecord{ID: id, Name: r.Name, Grants: r.Grants, Expires: r.Expires, Created: testNow,
		Secrets: []access.KeySecret{{Hash: access.Hash(text)}}}
	f.access.keys = append(f.access.keys, key)
	if f.access.quotas == nil {
		f.access.quotas = map[string]view.Quotas{}
	}
	f.access.quotas[id] = r.Quotas
	return text, key, nil
}

func (f *fakeBackend) KeyLimits(id string) quota.Limits {
	f.mu.Lock()
	defer f.mu.Unlock()
	return quota.Limits(f.access.quotas[id])
}

func (f *fakeBackend) Weight(string) int { return 1 }

// NamespaceUse counts the tasks and the bytes of their payloads.
func (f *fakeBackend) NamespaceUse(_ context.Context, name string) (task.NamespaceUse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	usage := task.NamespaceUse{Namespace: name}
	for t := range f.within(name) {
		switch {
		case t.State == fsmpb.State_STATE_DEAD:
			usage.Dead++
		case !tombstone(t):
			usage.Pending++
		}
		usage.Bytes += uint64(len(t.Spec.GetPayload()))
	}
	return usage, f.readErr
}

func (f *fakeBackend) at(id string) int {
	return slices.IndexFunc(f.access.keys, func(k access.KeyRecord) bool { return k.ID == id })
}

// RotateKey refuses a third secret.
func (f *fakeBackend) RotateKey(
	_ context.Context, id string, overlap time.Duration,
) (string, access.KeyRecord, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.at(id)
	switch {
	case f.readErr != nil || i < 0:
		return "", access.KeyRecord{}, false, f.readErr
	case len(f.access.keys[i].Secrets) > 1:
		return "", access.KeyRecord{}, true, &task.ImpossibleError{Reason: "the key has two secrets"}
	}
	k, text := &f.access.keys[i], access.NewSecret(id)
	k.Secrets[0].Expires = testNow.Add(overlap)
	k.Secrets = append(k.Secrets, access.KeySecret{Hash: access.Hash(text)})
	return text, *k, true, nil
}

func (f *fakeBackend) RemoveKey(_ context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.at(id)
	if f.readErr != nil || i < 0 {
		return false, f.readErr
	}
	if !f.access.lasting {
		f.access.keys = slices.Delete(f.access.keys, i, i+1)
	}
	return true, nil
}

func (f *fakeBackend) NamespaceActive(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return name == "" || f.access.namespaces[name].State == "active" // "" is the default one, as in commands
}

func (f *fakeBackend) Namespaces() []view.Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []view.Namespace
	for _, name := range slices.Sorted(maps.Keys(f.access.namespaces)) {
		all = append(all, f.access.namespaces[name])
	}
	return all
}

func (f *fakeBackend) PutNamespace(_ context.Context, name string, q quota.Limits) (view.Namespace, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, existed := f.access.namespaces[name]
	if f.readErr != nil {
		return old, false, f.readErr
	}
	made := view.Namespace{Name: name, Quotas: view.Quotas(q), State: "active", CreatedAt: view.InstantOf(testNow.UnixMilli())}
	if existed {
		made.CreatedAt = old.CreatedAt
	}
	f.access.namespaces[name] = made
	return made, !existed, nil
}

func (f *fakeBackend) DeleteNamespace(_ context.Context, name string) (*view.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, existed := f.access.namespaces[name]
	if f.readErr != nil || !existed {
		return nil, f.readErr
	}
	n.State = "deleting"
	f.access.namespaces[name] = n
	op := view.Operation{ID: "op-delete-" + name, Kind: "delete_namespace", Namespace: name, State: isRunning,
		BeganAt: view.InstantOf(testNow.UnixMilli())}
	f.operations = append(f.operations, op)
	return &op, nil
}
