package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// soon is the time within which a change of a key is in force at every node.
const soon = time.Second

// controlLeader returns the name of the node that leads the control group.
func (g *guarded) controlLeader() string {
	g.t.Helper()
	return leaderOfControl(g.t, g.cluster, g.client(g.admin))
}

// kill kills a node, waits until another one leads the control group, and starts the node again.
func (g *guarded) kill(name string) {
	g.t.Helper()
	assert.NoError(g.t, g.cluster.Kill(name))
	await(g.t, "another leader", func() bool { return g.controlLeader() != name })
	assert.NoError(g.t, g.cluster.StartNode(g.t.Context(), name))
}

// judge returns the status of a call with the text of a key at a node, or 0 if the node does not answer. Like any
// client it comes again if its address has sent too many wrong keys.
func (g *guarded) judge(node int, text string) int {
	g.t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		resp, _, err := g.ask(g.t.Context(), text, node, http.MethodGet, "/v1/whoami", "")
		if err != nil {
			return 0
		}
		status := resp.StatusCode
		if status != http.StatusTooManyRequests {
			return status
		}
		<-ticker.C
	}
}

// create makes a key at one node. ok is false if the node does not make it.
func (g *guarded) create(ctx context.Context, node int) (text, id string, ok bool) {
	resp, body, err := g.ask(ctx, g.text(g.admin), node, http.MethodPost, "/v1/keys",
		`{"name":"brief","grants":[{"role":"read","namespace":"default"}]}`)
	var made struct{ ID, Key string }
	if err != nil || resp.StatusCode != http.StatusCreated || json.Unmarshal([]byte(body), &made) != nil {
		return "", "", false
	}
	return made.Key, made.ID, true
}

// revoke ends a key at one node. ok is false if the node does not say that it is ended.
func (g *guarded) revoke(ctx context.Context, node int, id string) (ok bool) {
	resp, _, err := g.ask(ctx, g.text(g.admin), node, http.MethodDelete, "/v1/keys/"+id, "")
	return err == nil && resp.StatusCode == http.StatusNoContent
}

// answered are the keys whose making or revocation a node has answered.
type answered struct {
	mu             sync.Mutex
	valid, revoked []string
}

// churn makes ten keys a second at a node, and revokes two of three, until ctx ends. The answering node judges by each change at once.
func (g *guarded) churn(ctx context.Context, node int, a *answered) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		<-ticker.C
		text, id, ok := g.create(ctx, node)
		if !ok {
			continue
		}
		if status := g.judge(node, text); status != http.StatusOK && status != 0 && status != http.StatusServiceUnavailable {
			g.t.Errorf("node %d answers %d to the key that it has made", node, status)
		}
		revokes := n%3 > 0
		if revokes {
			if !g.revoke(ctx, node, id) {
				continue // it may be revoked, or not
			}
			if status := g.judge(node, text); status == http.StatusOK {
				g.t.Errorf("node %d takes the key that it has revoked", node)
			}
		}
		a.mu.Lock()
		if revokes {
			a.revoked = append(a.revoked, text)
		} else {
			a.valid = append(a.valid, text)
		}
		a.mu.Unlock()
	}
}

// check compares the judgement of every node with the answers.
func (g *guarded) check(a *answered, when string) {
	g.t.Helper()
	for node := range g.urls {
		for want, texts := range map[int][]string{http.StatusOK: a.valid, http.StatusUnauthorized: a.revoked} {
			for _, text := range texts {
				if status := g.judge(node, text); status != want {
					g.t.Errorf("%s node %d answers %d to a key, not %d", when, node, status, want)
				}
			}
		}
	}
}

// TestKeysOutliveKilledNodes kills the leader of the control group while keys are made and revoked at all nodes. All
// that was answered holds at every node, also after all of them were killed at once.
func TestKeysOutliveKilledNodes(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	g := newGuarded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var a answered
	var churning sync.WaitGroup
	for node := range g.urls {
		churning.Go(func() { g.churn(ctx, node, &a) })
	}
	for range 3 {
		g.kill(g.controlLeader())
	}
	cancel()
	churning.Wait()
	if len(a.valid) < 10 || len(a.revoked) < 5 {
		t.Fatalf("%d keys and %d revoked ones", len(a.valid), len(a.revoked))
	}
	g.check(&a, "after the failovers")
	g.restartAll()
	g.check(&a, "after the restart of all")
	assert.Equal(t, g.judge(0, ""), http.StatusUnauthorized, "without a key")
	t.Logf("%d keys hold, and %d are revoked", len(a.valid), len(a.revoked))
}

// restartAll kills all nodes, and starts them again.
func (g *guarded) restartAll() {
	g.t.Helper()
	var errs []error
	for _, n := range g.cluster.Nodes() {
		errs = append(errs, g.cluster.Kill(n.Name))
	}
	for _, n := range g.cluster.Nodes() {
		errs = append(errs, g.cluster.Launch(n.Name))
	}
	for _, n := range g.cluster.Nodes() {
		errs = append(errs, g.cluster.AwaitReady(g.t.Context(), n.Name))
	}
	assert.NoError(g.t, errors.Join(errs...))
}

// TestKeysHoldEverywhereSoon makes and revokes keys at each node in turn, while tasks are scheduled at all of them. It
// measures the time from each answer until every node judges by it.
func TestKeysHoldEverywhereSoon(t *testing.T) {
	gated.Need(t, gated.Timed)
	g := newGuarded(t)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer cancel()
	var scheduled atomic.Int64
	for node := range g.urls {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprint("/v1/tasks/t", node, "-", i%500)
				if resp, _, err := g.ask(ctx, g.text(g.admin), node, "PUT", path, `{"delay":"1h"}`); err == nil && resp.StatusCode < 300 {
					scheduled.Add(1)
				}
			}
		})
	}
	var took []time.Duration
	for i := range 50 {
		at := i % len(g.urls)
		text, id, ok := g.create(ctx, at)
		if !ok {
			t.Fatal("no key is made")
		}
		took = append(took, g.agreed(at, text, http.StatusOK)...)
		if !g.revoke(ctx, at, id) {
			t.Fatal("the key is not revoked")
		}
		took = append(took, g.agreed(at, text, http.StatusUnauthorized)...)
	}
	slices.Sort(took)
	p99, most := took[len(took)*99/100], took[len(took)-1]
	if most > soon {
		t.Errorf("a change is in force everywhere after %v", most)
	}
	t.Logf("%d judgements beside %d schedules: median %v, p99 %v, at most %v after the answer", len(took), scheduled.Load(),
		took[len(took)/2], p99, most)
}

// agreed waits until every node answers a status to a key, the answering node at once, and returns the time of each.
func (g *guarded) agreed(answering int, text string, want int) (took []time.Duration) {
	g.t.Helper()
	began := time.Now()
	assert.Equal(g.t, g.judge(answering, text), want, "the answering node %d", answering)
	for node := range g.urls {
		await(g.t, fmt.Sprint("status ", want), func() bool { return g.judge(node, text) == want })
		took = append(took, time.Since(began))
	}
	return took
}

// TestKeysOutliveRestore restores a cluster from its backup: the same keys are valid, and revoked ones stay revoked.
func TestKeysOutliveRestore(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	g := newGuarded(t)
	valid := strings.TrimSpace(g.must(0, g.admin, "key create kept --role read --namespace *"))
	revoked := strings.TrimSpace(g.must(1, g.admin, "key create gone --role read --namespace *"))
	g.must(2, g.admin, "key revoke --yes "+revoked[4:14])
	dir := t.TempDir()
	g.must(1, g.admin, "backup --to "+dir+"/now.backup")
	if data, err := os.ReadFile(dir + "/now.backup"); err != nil || strings.Contains(string(data), valid[15:]) {
		t.Errorf("the backup shows a key, or none is there: %v", err)
	}
	if out, _, err := ran(t, "restore", dir+"/now.backup", "--data", dir+"/data"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr, _ := running(t, "--data", dir+"/data")
	restored := &guarded{t: t, urls: []string{"http://" + addr}, http: http.DefaultClient}
	for text, want := range map[string]int{valid: http.StatusOK, revoked: http.StatusUnauthorized, "": http.StatusUnauthorized} {
		assert.Equal(t, restored.judge(0, text), want, "the restored cluster answers")
	}
}
