package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

// guarded is a cluster of real nodes whose calls need a key.
type guarded struct {
	t       *testing.T
	cluster *local.Cluster
	urls    []string
	admin   string // file of the first key
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	localtest.Need(t)
	cluster, err := local.Start(t.Context(), local.Config{Binary: localtest.Build(t), DataDir: t.TempDir(), Auth: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	return &guarded{t: t, cluster: cluster, urls: cluster.URLs(), admin: cluster.KeyFile()}
}

// run runs a command line with the key in a file, through the node with this number.
func (g *guarded) run(node int, key, line string) (out, notes string, err error) {
	g.t.Helper()
	return ran(g.t, append(strings.Fields(line), "--addr", g.urls[node], "--key-file", key)...)
}

// must is run for a command line that succeeds.
func (g *guarded) must(node int, key, line string) string {
	g.t.Helper()
	out, _, err := g.run(node, key, line)
	if err != nil {
		g.t.Fatalf("belfry %s: %v", line, err)
	}
	return out
}

// key stores the text of a new key in a file.
func (g *guarded) key(name, text string) (file string) {
	g.t.Helper()
	file = filepath.Join(g.t.TempDir(), name+".key")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return file
}

// client returns a client with the key in a file.
func (g *guarded) client(key string) *client.Client {
	g.t.Helper()
	c, err := client.New(client.Config{Addrs: g.urls, KeyFile: key, Timeout: 20 * time.Second})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}

// ask makes a call to one node with the text of a key. An error is one of the connection.
func (g *guarded) ask(
	ctx context.Context, key string, node int, method, path, body string, header ...string,
) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.urls[node]+path, strings.NewReader(body))
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
	resp, err := http.DefaultClient.Do(req)
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
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// everywhere waits until a call through each node gives an error, at most a second.
func (g *guarded) everywhere(key, line string, want error) {
	g.t.Helper()
	end := time.Now().Add(time.Second)
	for node := range g.urls {
		for {
			_, _, err := g.run(node, key, line)
			if errors.Is(err, want) {
				break
			}
			if time.Now().After(end) {
				g.t.Fatalf("belfry %s through node %d: %v, want %v", line, node, err, want)
			}
		}
	}
}

// Keys, namespaces and their commands on real nodes: a key reaches its namespace and nothing else, through every node,
// until it is revoked.
func TestKeysOnRealNodes(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	if _, _, err := ran(t, "task", "list", "--addr", g.urls[0]); !errors.Is(err, client.ErrUnauthenticated) {
		t.Errorf("without a key: %v", err)
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
	if out := g.must(2, g.admin, "task get a --namespace orders"); !strings.Contains(out, "scheduled") {
		t.Errorf("in the namespace:\n%s", out)
	}
	for line, want := range map[string]error{
		"task get a --namespace default": client.ErrNotFound, "task get a --namespace mails": client.ErrNotFound,
		"task get a --namespace none": client.ErrNotFound, "queue pause bills": client.ErrForbidden,
		"lease take bills": client.ErrForbidden, "cluster status": client.ErrForbidden, "key list": client.ErrForbidden,
		"key create x --role read": client.ErrForbidden, "namespace put x": client.ErrForbidden,
		"key revoke --yes " + id: client.ErrForbidden,
	} {
		if _, _, err := g.run(0, shop, line); !errors.Is(err, want) {
			t.Errorf("belfry %s with the shop's key: %v, want %v", line, err, want)
		}
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

	out := g.must(1, g.admin, "namespace delete orders --yes --wait")
	if !strings.Contains(out, "delete namespace orders: done") {
		t.Errorf("the deletion:\n%s", out)
	}
	g.everywhere(g.admin, "task get a --namespace orders", client.ErrNotFound)
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
		if id != "a" {
			g.t.Errorf("the consumer got %s", id)
		}
	case err := <-stopped:
		g.t.Fatalf("the consumer stopped: %v", err)
	case <-time.After(30 * time.Second):
		g.t.Fatal("the consumer got no task")
	}
	who, err := c.WhoAmI(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	g.must(0, g.admin, "key revoke --yes "+who.ID)
	select {
	case err := <-stopped:
		if !errors.Is(err, client.ErrUnauthenticated) {
			g.t.Errorf("the consumer stopped with %v", err)
		}
	case <-time.After(30 * time.Second):
		g.t.Error("the consumer goes on with a revoked key")
	}
	g.must(0, g.admin, "task schedule a --delay 1h --queue bills --namespace orders")
}
