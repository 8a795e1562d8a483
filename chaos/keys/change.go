package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// text is one text of an API key, with its entry in the record.
type text struct {
	entry int
	id    string
	key   client.Secret
}

// create makes a key with the same grants in one namespace, for some queues of it; nil: for all.
func (k *Keeper) create(ctx context.Context, namespace string, queues []string, roles ...client.Role) (*text, error) {
	var grants []client.Grant
	for _, role := range roles {
		grants = append(grants, client.Grant{Role: role, Namespace: full(namespace), Queues: queues})
	}
	made, err := k.admin.CreateKey(ctx, client.KeyRequest{Name: k.name(), Grants: grants})
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return k.enter(made, namespace, roles[0]), nil
}

func (k *Keeper) enter(made *client.NewAPIKey, namespace string, role client.Role) *text {
	n := k.cfg.Recorder.Enter(history.Entry{
		Kind: history.OfKeys, ID: made.ID, Namespace: namespace, Role: string(role),
	})
	return &text{entry: n, id: made.ID, key: made.Key}
}

// rotate gives a key another text. With an overlap the older one stays valid.
func (k *Keeper) rotate(ctx context.Context, t *text, namespace string, overlap time.Duration) (*text, error) {
	if overlap == 0 {
		k.cfg.Recorder.Ending(t.entry, true)
	}
	made, err := k.admin.RotateKey(ctx, t.id, overlap)
	if err != nil {
		return nil, fmt.Errorf("rotating key %s: %w", t.id, err)
	}
	if overlap == 0 {
		k.cfg.Recorder.Ended(t.entry)
	}
	return k.enter(made, namespace, client.RoleRead), nil
}

// revoke revokes a key with its valid texts.
func (k *Keeper) revoke(ctx context.Context, valid ...*text) error {
	for _, t := range valid {
		k.cfg.Recorder.Ending(t.entry, false)
	}
	if err := k.admin.RevokeKey(ctx, valid[0].id); err != nil {
		return fmt.Errorf("revoking key %s: %w", valid[0].id, err)
	}
	for _, t := range valid {
		k.cfg.Recorder.Ended(t.entry)
	}
	return nil
}

// putNamespace makes a namespace.
func (k *Keeper) putNamespace(ctx context.Context, name string) error {
	if _, err := k.admin.PutNamespace(ctx, name, client.Quotas{}); err != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	k.cfg.Recorder.Enter(history.Entry{Kind: history.OfNamespaces, ID: name})
	return nil
}

const (
	loadKeyAge = 6 * time.Second
	// handOver is the time between a new key of a load and the revocation of the old one. It is longer than any call.
	handOver = 4 * time.Second
)

// giveKey gives the load of a namespace a new key.
func (k *Keeper) giveKey(ctx context.Context, namespace string) (*text, error) {
	t, err := k.create(ctx, namespace, nil, client.RoleSchedule, client.RoleConsume, client.RoleOperate)
	if err != nil {
		return nil, err
	}
	return t, writeFile(k.File(namespace), t.key.Text())
}

// ConsumerKey makes a key for a consumer of one queue of a namespace alone, and returns the path of its file.
func (k *Keeper) ConsumerKey(ctx context.Context, namespace, queue string) (file string, err error) {
	t, err := k.create(ctx, namespace, []string{queue}, client.RoleConsume)
	if err != nil {
		return "", err
	}
	file = k.File(namespace) + "-" + queue
	return file, writeFile(file, t.key.Text())
}

// replaceKey gives the load of a namespace two keys, one after the other, and revokes the first one handOver after the
// second is in use. It returns early when the context ends. The load then has a valid key.
func (k *Keeper) replaceKey(ctx context.Context, namespace string) {
	whole := context.WithoutCancel(ctx)
	old, err := k.giveKey(whole, namespace)
	if err != nil || !load.Wait(ctx, loadKeyAge) {
		return
	}
	if _, err := k.giveKey(whole, namespace); err == nil && load.Wait(ctx, handOver) {
		_ = k.revoke(whole, old) // the record has a call of unknown outcome
	}
}

// removeKeys revokes the keys that are left.
func (k *Keeper) removeKeys(ctx context.Context) error {
	all, err := k.admin.Keys(ctx)
	for _, key := range all {
		if !strings.HasPrefix(key.Name, k.cfg.Prefix+"key-") {
			continue
		}
		if failed := k.admin.RevokeKey(ctx, key.ID); !errors.Is(failed, client.ErrNotFound) { // the node may be behind
			err = errors.Join(err, failed)
		}
	}
	return err
}

// removeNamespaces begins to delete the namespaces that the trials have made.
func (k *Keeper) removeNamespaces(ctx context.Context) error {
	all, err := k.admin.Namespaces(ctx)
	for _, n := range all {
		if strings.HasPrefix(n.Name, k.cfg.Prefix+"key-") {
			_, failed := k.admin.DeleteNamespace(ctx, n.Name)
			err = errors.Join(err, failed)
		}
	}
	return err
}
