package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/internal/wait"
)

func TestDiskKindsNeedDisks(t *testing.T) {
	for _, k := range kindsOf("disk") {
		assert.Error(t, k.Needs(&stand.Stand{}), "%s would strike on this machine's disk", k.Name)
	}
}

// Every kind strikes a real cluster under writes, one after the other. After each kind all nodes run again, the disks
// are sound, and every acknowledged task is still there.
func TestDisksAreSoundAfterFaults(t *testing.T) {
	localtest.Need(t)
	gated.NeedRoot(t, lossyfs.Supported)
	s, err := stand.Open(t.Context(), stand.Config{
		Binary: localtest.Build(t), Dir: t.TempDir(), Nodes: 3, Shards: 2, Disks: true,
	})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	c, err := client.New(client.Config{Addrs: s.Cluster.URLs(), Timeout: 5 * time.Second})
	assert.NoError(t, err)
	rec := history.NewRecorder(nil)
	w := writing(t, c)
	for i, k := range kindsOf("disk") {
		on := Target{Stand: s, Recorder: rec, Rand: rand.New(rand.NewPCG(uint64(i), 0)), Hold: 500 * time.Millisecond}
		began := time.Now()
		assert.NoError(t, k.Strike(t.Context(), on), "%s", k.Name)
		took := time.Since(began)
		assert.NoError(t, s.AwaitReady(t.Context(), time.Minute, s.Names()...), "%s", k.Name)
		faults := rec.History().Faults
		f := faults[len(faults)-1]
		t.Logf("%s: %v, leading %v: %s; took %v", f.Kind, f.Nodes, f.Shards, f.Detail, took.Round(time.Millisecond))
		if len(faults) != i+1 || f.Mended < f.Mending || f.Mending < f.Struck || f.Detail == "" || len(f.Nodes) == 0 {
			t.Errorf("%+v", f)
		}
	}
	w.stop()
	for _, id := range w.acknowledged {
		_, err := c.Get(t.Context(), id)
		assert.Equal(t, err, nil, "%s was acknowledged", id)
	}
	t.Logf("%d acknowledged", len(w.acknowledged))
	for name, d := range s.Disks {
		t.Logf("%s: %+v", name, d.Stats())
	}
}

// writer schedules tasks with a long delay until it is stopped.
type writer struct {
	cancel       context.CancelFunc
	done         sync.WaitGroup
	acknowledged []string // may be read after stop
}

func writing(t *testing.T, c *client.Client) *writer {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{cancel: cancel}
	t.Cleanup(w.stop)
	w.done.Go(func() {
		for i := 0; wait.For(ctx, 5*time.Millisecond); i++ {
			id := fmt.Sprintf("task-%d", i)
			_, err := c.Schedule(ctx, client.Task{ID: id, FireAt: time.Now().Add(time.Hour),
				Target: &client.Target{URL: "http://127.0.0.1:1/"}})
			if err == nil {
				w.acknowledged = append(w.acknowledged, id)
			}
		}
	})
	return w
}

func (w *writer) stop() {
	w.cancel()
	w.done.Wait()
}
