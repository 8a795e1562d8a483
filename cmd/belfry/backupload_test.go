package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	webhooks "github.com/belfryhq/belfry/deploy/receiver"
)

// inbox counts the arrivals of each task by webhook id.
type inbox struct {
	mu  sync.Mutex
	got map[string]map[string]int
}

func (b *inbox) take(a webhooks.Arrival) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.got[a.TaskID] == nil {
		b.got[a.TaskID] = map[string]int{}
	}
	b.got[a.TaskID][a.WebhookID]++
	return 200
}

func (b *inbox) of(id string) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got[id]
}

// load schedules tasks until ctx ends, and remembers which call was answered by when. Every second task is due soon.
type load struct {
	mu    sync.Mutex
	acked map[string]time.Time
}

func (l *load) run(ctx context.Context, c *client.Client, url string) {
	for i := 0; ctx.Err() == nil; i++ {
		task := client.Task{
			ID: fmt.Sprint("task-", i), Delay: time.Hour, Target: &client.Target{URL: url},
			Payload: []byte(`"` + strings.Repeat("x", 500) + `"`),
		}
		if i%2 == 0 {
			task.Delay = time.Duration(i%20) * 100 * time.Millisecond
		}
		if _, err := c.Schedule(ctx, task); err == nil {
			l.mu.Lock()
			l.acked[task.ID] = time.Now()
			l.mu.Unlock()
		}
	}
}

func (l *load) before(at time.Time) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, acked := range l.acked {
		if acked.Before(at) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick, late := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// A backup of three nodes under load, restored into a cluster of one with another number of shards: every task that was
// acknowledged before the backup is there or has fired, and none is there twice.
func TestBackupUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs real nodes")
	}
	binary, dir := localtest.Build(t), t.TempDir()
	box := &inbox{got: map[string]map[string]int{}}
	hook := httptest.NewServer(webhooks.Handler(box.take))
	defer hook.Close()
	old, err := local.Start(t.Context(), local.Config{Binary: binary, DataDir: filepath.Join(dir, "old")})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Stop()
	c, err := client.New(client.Config{Addrs: old.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.PutQueue(t.Context(), client.Queue{Name: "signed", KeepDone: time.Hour, MaxInFlight: 7}); err != nil {
		t.Fatal(err)
	}
	policy, err := c.Queue(t.Context(), "signed")
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	l := &load{acked: map[string]time.Time{}}
	var loading sync.WaitGroup
	loading.Go(func() { l.run(ctx, c, hook.URL) })
	await(t, "600 tasks are there", func() bool { return len(l.before(time.Now())) > 600 })

	file := filepath.Join(dir, "killed.backup")
	killedInTheMiddle(t, binary, old.URLs(), file)

	file = filepath.Join(dir, "made.backup")
	began := time.Now()
	mustRun(t, binary, "backup", "--addr", strings.Join(old.URLs(), ","), "--to", file)
	stop()
	loading.Wait()
	acked := l.before(began)
	old.Stop()

	data := filepath.Join(dir, "new")
	t.Log(mustRun(t, binary, "verify", file))
	t.Log(mustRun(t, binary, "restore", file, "--data", data, "--shards", "5"))
	addrs, err := local.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), binary, "serve", "--data", data, "--http", addrs[0], "--peer", addrs[1],
		"--allow-webhook-cidr", "127.0.0.0/8", "--min-free-disk", "0")
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = node.Wait() // it was killed
	}()
	restored := dial(t, "http://"+addrs[0])
	defer restored.Close()
	accountFor(t, restored, box, acked)
	if is, err := restored.Queue(t.Context(), "signed"); err != nil || is.KeepDone != policy.KeepDone ||
		is.MaxInFlight != policy.MaxInFlight {
		t.Errorf("policy %+v, %v, want %+v", is, err, policy)
	}
}

// accountFor checks each acknowledged task: a later one is scheduled once, and one that was due has arrived, under one
// webhook id.
func accountFor(t *testing.T, c *client.Client, box *inbox, acked []string) {
	t.Helper()
	later := map[string]int{}
	for task, err := range c.List(t.Context(), client.Filter{States: []client.State{client.Scheduled}}) {
		if err != nil {
			t.Fatal(err)
		}
		later[task.ID]++
	}
	due := 0
	for _, id := range acked {
		var i int
		if _, err := fmt.Sscanf(id, "task-%d", &i); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			if later[id] != 1 {
				t.Errorf("%s is there %d times", id, later[id])
			}
			continue
		}
		due++
		await(t, id+" arrives", func() bool { return len(box.of(id)) > 0 })
		if got := box.of(id); len(got) != 1 {
			t.Errorf("%s has arrived under webhook ids %v", id, got)
		}
	}
	if len(acked) < 600 || due < 300 {
		t.Errorf("%d tasks, %d of them due", len(acked), due)
	}
	t.Logf("%d tasks acknowledged before the backup, %d of them due by now", len(acked), due)
}

// killedInTheMiddle kills the command while it writes, and checks that no backup is found under its name.
func killedInTheMiddle(t *testing.T, binary string, urls []string, file string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "backup", "--addr", strings.Join(urls, ","), "--to", file, "--rate", "20KiB")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "a part of the backup is written", func() bool {
		info, err := os.Stat(file + ".part")
		return err == nil && info.Size() > 0
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the command ended before it was killed")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("half a backup under its name: %v", err)
	}
	mustRun(t, binary, "backup", "--addr", urls[0], "--to", file)
	if left, err := filepath.Glob(file + "*"); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func mustRun(t *testing.T, binary string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("belfry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
