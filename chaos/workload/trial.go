package workload

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// trials takes a key of a namespace through its life, and tries it after each change. It reports whether all changes
// were acknowledged.
func (k *Keeper) trials(ctx context.Context, namespace string) bool {
	_ = k.putNamespace(ctx, k.name()) // the lists show whether an acknowledged one stays
	first, err := k.create(ctx, namespace, nil, client.RoleRead)
	if err != nil {
		return false
	}
	k.twice(ctx, namespace, first)
	overlap := time.Duration(first.entry%2) * time.Hour
	second, err := k.rotate(ctx, first, namespace, overlap)
	if err != nil {
		return false
	}
	k.twice(ctx, namespace, first, second)
	valid := []*text{second}
	if overlap > 0 {
		valid = append(valid, first)
	}
	if err := k.revoke(ctx, valid...); err != nil {
		return false
	}
	k.twice(ctx, namespace, first, second)
	return true
}

// twice tries the texts of a key at each node, at once and when each node must know about the last change.
func (k *Keeper) twice(ctx context.Context, namespace string, texts ...*text) {
	for range 2 {
		for _, t := range texts {
			k.everywhere(ctx, func(ctx context.Context, n Node) { k.tryAll(ctx, n, namespace, t) })
		}
		if !wait.For(ctx, known) {
			return
		}
	}
}

// everywhere calls do for each node of the cluster, at once.
func (k *Keeper) everywhere(ctx context.Context, do func(ctx context.Context, n Node)) {
	var all sync.WaitGroup
	for _, i := range present(k.cfg.Nodes, k.cfg.Spare) {
		all.Go(func() { do(ctx, k.cfg.Nodes[i]) })
	}
	all.Wait()
}

// tryAll asks a node all questions with one text.
func (k *Keeper) tryAll(ctx context.Context, n Node, namespace string, t *text) {
	k.try(ctx, n, history.AskOwn, t, http.MethodGet, "/v1/whoami", "")
	k.try(ctx, n, history.AskBeyond, t, http.MethodPut, "/v1/tasks/"+k.cfg.Prefix+"beyond", `{"delay":"1h"}`)
	for _, other := range k.cfg.Namespaces {
		if other != namespace {
			k.try(ctx, n, history.AskForeign, t, http.MethodGet, "/v1/namespaces/"+full(other)+"/tasks?limit=1", "")
		}
	}
}

// visit calls each node without a key.
func (k *Keeper) visit(ctx context.Context) {
	none := &text{entry: history.NoEntry}
	k.everywhere(ctx, func(ctx context.Context, n Node) {
		k.try(ctx, n, history.AskNothing, none, http.MethodGet, "/v1/tasks?limit=1", "")
	})
}

// try makes one call and records its answer. A call that gets none is recorded with the status 0.
func (k *Keeper) try(ctx context.Context, n Node, ask string, t *text, method, path, body string) {
	t0 := history.Trial{Ask: ask, Entry: t.entry, Node: n.Name, Start: k.cfg.Recorder.Now()}
	defer func() { k.cfg.Recorder.Try(t0) }()
	req, err := http.NewRequestWithContext(ctx, method, n.URL+path, strings.NewReader(body))
	if err != nil {
		return // the URLs of nodes are whole
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if t.key.Text() != "" {
		req.Header.Set("Authorization", "Bearer "+t.key.Text())
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the connection is used again
	_ = resp.Body.Close()
	t0.Status = resp.StatusCode
}

// pageSize is the number of tasks in a list.
const pageSize = 100

// lists records what each node lists.
func (k *Keeper) lists(ctx context.Context) {
	k.everywhere(ctx, func(ctx context.Context, n Node) {
		k.list(ctx, n, history.OfKeys)
		k.list(ctx, n, history.OfNamespaces)
		for _, p := range k.pages {
			if p.node == n.Name {
				k.page(ctx, p)
			}
		}
	})
}

// list records the keys or namespaces that a node lists.
func (k *Keeper) list(ctx context.Context, n Node, kind string) {
	roll := history.Roll{Kind: kind, Node: n.Name, Start: k.cfg.Recorder.Now()}
	if kind == history.OfKeys {
		all, err := k.nodeClients[n.Name].Keys(ctx)
		if err != nil {
			return // the node is down or cut off
		}
		for _, key := range all {
			roll.IDs = append(roll.IDs, key.ID)
		}
	} else {
		all, err := k.nodeClients[n.Name].Namespaces(ctx)
		if err != nil {
			return
		}
		for _, namespace := range all {
			roll.IDs = append(roll.IDs, namespace.Name)
		}
	}
	k.cfg.Recorder.List(roll)
}

// page records the first unfinished tasks of a namespace.
func (k *Keeper) page(ctx context.Context, p pager) {
	roll := history.Roll{Kind: history.OfTasks, Node: p.node, Namespace: p.namespace, Start: k.cfg.Recorder.Now()}
	for tasks, err := range p.client.Pages(ctx, client.Filter{
		Prefix: k.cfg.Prefix, Payload: true, PageSize: pageSize,
		States: []client.State{client.StateScheduled, client.StateReady, client.StateFiring, client.StateRetrying},
	}) {
		if err != nil {
			return
		}
		for _, t := range tasks {
			if wrote := load.Decode(t.Payload).Op; wrote != 0 {
				roll.Wrote = append(roll.Wrote, wrote)
			}
		}
		if len(roll.Wrote) > 0 {
			break
		}
	}
	k.cfg.Recorder.List(roll)
}
