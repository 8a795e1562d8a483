package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// guarded is a cluster of real nodes whose calls need a key.
type guarded struct {
	t       *testing.T
	cluster *local.Cluster // nil: the node is none of its own process
	urls    []string
	admin   string      // file of the first key
	ca      string      // file of the authority of the nodes' certificates; empty: they have none
	tls     *tls.Config // with that authority
	http    *http.Client
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	cluster := localCluster(t, local.Config{Auth: true})
	return &guarded{t: t, cluster: cluster, urls: cluster.URLs(), admin: cluster.KeyFile(), http: http.DefaultClient}
}

// url returns the URL of the node with this number, counted round.
func (g *guarded) url(node int) string { return g.urls[node%len(g.urls)] }

// run runs a command line with the key in a file, through the node with this number.
func (g *guarded) run(node int, key, line string) (out, notes string, err error) {
	g.t.Helper()
	args := append(strings.Fields(line), "--addr", g.url(node), "--key-file", key)
	if g.ca != "" {
		args = append(args, "--ca", g.ca)
	}
	return ran(g.t, args...)
}

// must is run for a command line that succeeds.
func (g *guarded) must(node int, key, line string) string {
	g.t.Helper()
	out, _, err := g.run(node, key, line)
	assert.NoError(g.t, err, "belfry %s", line)
	return out
}

// key stores the text of a new key in a file.
func (g *guarded) key(name, text string) (file string) {
	g.t.Helper()
	file = filepath.Join(g.t.TempDir(), name+".key")
	assert.NoError(g.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// client returns a client with the key in a file.
func (g *guarded) client(key string) *client.Client {
	g.t.Helper()
	c, err := client.New(client.Config{Addrs: g.urls, KeyFile: key, TLS: g.tls})
	assert.NoError(g.t, err)
	g.t.Cleanup(c.Close)
	return c
}

// ask makes a call to one node with the text of a key. An error is one of the connection.
func (g *guarded) ask(
	ctx context.Context, key string, node int, method, path, body string, header ...string,
) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.url(node)+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// text returns the text of a key in a file.
func (g *guarded) text(file string) string {
	g.t.Helper()
	data, err := os.ReadFile(file)
	assert.NoError(g.t, err)
	return strings.TrimSpace(string(data))
}

// everywhere waits until a call through each node gives an error. TestKeysHoldEverywhereSoon measures the time.
func (g *guarded) everywhere(key, line string, want error) {
	g.t.Helper()
	for node := range g.urls {
		awaitNil(g.t, func() error {
			if _, _, err := g.run(node, key, line); !errors.Is(err, want) {
				return fmt.Errorf("belfry %s through node %d: %w, want %w", line, node, err, want)
			}
			return nil
		})
	}
}

// Keys, namespaces and their commands on three real nodes. TestRefusalsOfOpenPortsMendThemselves has one.
func TestKeysOnRealNodes(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	g := newGuarded(t)
	g.checkKeys()
	out := g.must(1, g.admin, "namespace delete orders --yes --wait")
	assert.Contains(t, out, "delete namespace orders: done", "the deletion")
	g.everywhere(g.admin, "task get a --namespace orders", client.ErrNotFound)
}

// checkKeys checks that a key reaches its namespace and nothing else, through every node, until it is revoked.
func (g *guarded) checkKeys() {
	t := g.t
	t.Helper()
	if resp, body, err := g.ask(t.Context(), "", 0, http.MethodGet, "/v1/tasks", ""); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %s %v", body, err)
	}
	for _, name := range []string{"orders", "mails"} {
		g.must(0, g.admin, "namespace put "+name+" --max-pending 1000")
	}
	shop := g.key("shop", g.must(0, g.admin, "key create shop --role schedule --namespace orders"))
	id := strings.Split(g.must(1, g.admin, "key list --json"), `"id":"`)[1][:10]
	g.everywhere(shop, "whoami", nil)
	if out := g.must(2, shop, "whoami"); !strings.Contains(out, "schedule in orders") || !strings.Contains(out, id) {
		t.Errorf("whoami:\n%s", out)
	}

	g.must(1, shop, "task schedule a --delay 1h --queue bills")
	assert.Contains(t, g.must(2, g.admin, "task get a --namespace orders"), "scheduled", "in the namespace")
	for line, want := range map[string]error{
		"task get a --namespace default": client.ErrNotFound, "task get a --namespace mails": client.ErrNotFound,
		"task get a --namespace none": client.ErrNotFound, "queue pause bills": client.ErrForbidden,
		"lease take bills": client.ErrForbidden, "cluster status": client.ErrForbidden, "key list": client.ErrForbidden,
		"key create x --role read": client.ErrForbidden, "namespace put x": client.ErrForbidden,
		"key revoke --yes " + id: client.ErrForbidden,
	} {
		_, _, err := g.run(0, shop, line)
		assert.ErrorIs(t, err, want, "belfry %s with the shop's key", line)
	}
	g.consume(shop)

	rotated := g.key("rotated", g.must(0, g.admin, "key rotate "+id+" --overlap 1h"))
	g.everywhere(rotated, "task get a", nil)
	g.everywhere(shop, "task get a", nil)
	var refusal *client.Error
	if _, _, err := g.run(0, g.admin, "key rotate "+id); !errors.As(err, &refusal) || refusal.Field != "overlap" {
		t.Errorf("a third text: %v", err)
	}
	last := g.key("last", g.must(0, g.admin, "key rotate "+id+" --overlap 0s"))
	g.everywhere(shop, "task get a", client.ErrUnauthenticated)
	g.everywhere(rotated, "task get a", client.ErrUnauthenticated)
	g.everywhere(last, "task get a", nil)
	g.must(1, g.admin, "key revoke --yes "+id)
	g.everywhere(last, "task get a", client.ErrUnauthenticated)
}

// consume checks that a consumer hears of a key that it may not use, and one whose key is revoked stops.
func (g *guarded) consume(forbidden string) {
	g.t.Helper()
	handle := func(context.Context, *client.Leased) error { return nil }
	if err := g.client(forbidden).Consume(g.t.Context(), "bills", client.ConsumeOptions{}, handle); !errors.Is(err, client.ErrForbidden) {
		g.t.Errorf("consume: %v", err)
	}
	worker := g.key("worker", g.must(0, g.admin, "key create worker --role consume --namespace orders --queue bi*"))
	g.everywhere(worker, "whoami", nil)
	c := g.client(worker)
	ran := make(chan string, 1)
	stopped := make(chan error, 1)
	go func() {
		stopped <- c.Consume(g.t.Context(), "bills", client.ConsumeOptions{}, func(_ context.Context, task *client.Leased) error {
			ran <- task.ID
			return nil
		})
	}()
	g.must(0, g.admin, "task fire a --namespace orders")
	select {
	case id := <-ran:
		assert.Equal(g.t, id, "a", "the consumer got")
	case err := <-stopped:
		g.t.Fatalf("the consumer stopped: %v", err)
	}
	caller, err := c.WhoAmI(g.t.Context())
	assert.NoError(g.t, err)
	g.must(0, g.admin, "key revoke --yes "+caller.ID)
	assert.ErrorIs(g.t, <-stopped, client.ErrUnauthenticated, "the consumer stopped with")
	g.must(0, g.admin, "task schedule a --delay 1h --queue bills --namespace orders")
}
