package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// KeeperConfig describes a Keeper. All fields are required but Spare.
type KeeperConfig struct {
	Nodes      []Node
	Spare      func() []string // names of the nodes that are not in the cluster now; nil: all are
	AdminFile  string          // file with an admin key of all namespaces
	Namespaces []string        // of the load; empty: the default one
	Recorder   *history.Recorder
	Dir        string        // folder for the files of the load's keys
	Prefix     string        // of the load's ids, and of the names that the Keeper makes
	Calm       time.Duration // after the mending of a fault, until every node is in touch with the others
}

// Keeper puts keys and namespaces to the test during a round: it makes, rotates and revokes API keys while nodes die,
// and tries them at each node.
//
//	loop        repeats                                                           recorded as
//	load's key  a new key for the load of a namespace; the old one is revoked     entries
//	            after the calls under way
//	trials      a key with the role read is made, rotated and revoked; after      entries, trials
//	            each change every node is tried with all texts of the key, then
//	            again once each node must know
//	visitors    calls without a key to every node                                 trials
//	lists       keys, namespaces, and a page of tasks in each namespace           rolls
//
// Most changes happen amid faults, and prove little then, because a node may be out of touch. Finish therefore waits
// until the cluster is whole, and plays the last three loops once more. The load reads its keys from files, as a
// service does whose keys an operator rotates. No text of a key is recorded.
//
// The methods of a Keeper are safe for concurrent use.
type Keeper struct {
	cfg         KeeperConfig
	admin       *client.Client
	nodeClients map[string]*client.Client // of single nodes, with the admin key
	pages       []pager
	http        *http.Client

	mu   sync.Mutex // guards made
	made int        // names given so far
}

// pager lists the tasks of a namespace at one node, with the key of the load.
type pager struct {
	node, namespace string
	client          *client.Client
}

const (
	changeTimeout = 5 * time.Second
	tryTimeout    = 2 * time.Second
	known         = 1100 * time.Millisecond // after a change, until every node in touch must know it
)

// OpenKeys makes the namespaces, and a key for the load of each.
func OpenKeys(ctx context.Context, cfg KeeperConfig) (*Keeper, error) {
	k := &Keeper{cfg: cfg, nodeClients: map[string]*client.Client{}, http: &http.Client{Timeout: tryTimeout}}
	if err := k.connect(); err != nil {
		return nil, err
	}
	for _, namespace := range cfg.Namespaces {
		if namespace != "" {
			if err := k.putNamespace(ctx, namespace); err != nil {
				return nil, err
			}
		}
		if _, err := k.giveKey(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *Keeper) connect() error {
	var addrs []string
	var failed []error
	one := func(n Node, file, namespace string) *client.Client {
		c, err := client.New(client.Config{
			Addrs: []string{n.URL}, KeyFile: file, Namespace: namespace, FixedAddrs: true, MaxAttempts: 1,
			Timeout: tryTimeout, AttemptTimeout: tryTimeout,
		})
		failed = append(failed, err)
		return c
	}
	for _, n := range k.cfg.Nodes {
		addrs = append(addrs, n.URL)
		k.nodeClients[n.Name] = one(n, k.cfg.AdminFile, "")
		for _, namespace := range k.cfg.Namespaces {
			k.pages = append(k.pages, pager{n.Name, namespace, one(n, k.File(namespace), namespace)})
		}
	}
	var err error
	k.admin, err = client.New(client.Config{Addrs: addrs, KeyFile: k.cfg.AdminFile, Timeout: changeTimeout})
	return errors.Join(append(failed, err)...)
}

// File returns the path of the file with the key of the load in a namespace.
func (k *Keeper) File(namespace string) string {
	return filepath.Join(k.cfg.Dir, "key-"+full(namespace))
}

// full returns the name of a namespace, also of the default one.
func full(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

// Run plays all loops until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loop := func(pause time.Duration, do func()) {
		loops.Go(func() {
			for wait.For(ctx, pause) {
				do()
			}
		})
	}
	for _, namespace := range k.cfg.Namespaces {
		loop(time.Second, func() { k.trials(ctx, namespace) })
		loop(loadKeyAge, func() { k.replaceKey(ctx, namespace) })
	}
	loop(time.Second, func() { k.visit(ctx) })
	loop(time.Second, func() { k.lists(ctx) })
	loops.Wait()
}

// Finish waits until the cluster has been whole for a while, and plays the trials, visits and lists once more. It
// returns an error if a trial's key could not be changed then.
func (k *Keeper) Finish(ctx context.Context) error {
	if !wait.For(ctx, k.untilCalm()) {
		return ctx.Err()
	}
	var all sync.WaitGroup
	failed := make([]error, len(k.cfg.Namespaces))
	for i, namespace := range k.cfg.Namespaces {
		all.Go(func() {
			if !k.trials(ctx, namespace) {
				failed[i] = fmt.Errorf("a key of namespace %s could not be changed in a whole cluster", full(namespace))
			}
		})
	}
	all.Wait()
	k.visit(ctx)
	k.lists(ctx)
	return errors.Join(failed...)
}

// untilCalm returns how long to wait from now until trials prove something.
func (k *Keeper) untilCalm() time.Duration {
	last := history.Instant(0)
	k.cfg.Recorder.View(func(h *history.History) {
		for _, f := range h.Faults {
			last = max(last, f.Mended)
		}
	})
	return last.Add(k.cfg.Calm + known).Sub(k.cfg.Recorder.Now())
}

// Close removes the keys and namespaces that the Keeper has made, but for the namespaces of the load.
func (k *Keeper) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*changeTimeout)
	defer cancel()
	return errors.Join(k.removeKeys(ctx), k.removeNamespaces(ctx))
}

// name returns a name that is not used yet.
func (k *Keeper) name() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made++
	return fmt.Sprintf("%skey-%d", k.cfg.Prefix, k.made)
}

// writeFile writes the key of a load whole, for its owner alone.
func writeFile(path, key string) error {
	fresh := path + ".new"
	return errors.Join(os.WriteFile(fresh, []byte(key+"\n"), 0o600), os.Rename(fresh, path))
}

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
	if err != nil || !wait.For(ctx, loadKeyAge) {
		return
	}
	if _, err := k.giveKey(whole, namespace); err == nil && wait.For(ctx, handOver) {
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
