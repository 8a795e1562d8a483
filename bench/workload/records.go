package workload

import (
	"context"
	"fmt"
	"sync"

	"github.com/belfryhq/belfry/bench/subject"
)

// recordsKept is the largest number of recordings for one reason.
const recordsKept = 2

// recorder makes the service write its recordings after a slow call, if the service can.
type recorder struct {
	run *run

	mu      sync.Mutex
	kept    map[string]int
	writing bool
	writers sync.WaitGroup
}

// keep writes the recordings in the background. It does nothing while another write is in progress.
func (k *recorder) keep(ctx context.Context, name string) {
	service, ok := k.run.service.(subject.Recorder)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.writing || k.kept[name] == recordsKept {
		return
	}
	if k.kept == nil {
		k.kept = map[string]int{}
	}
	k.kept[name]++
	k.writing = true
	label := fmt.Sprintf("%s-%d", name, k.kept[name])
	k.writers.Go(func() { k.write(context.WithoutCancel(ctx), service, label) })
}

func (k *recorder) write(ctx context.Context, service subject.Recorder, label string) {
	where, err := service.Keep(ctx, label)
	switch {
	case err != nil:
		k.run.say("what the service did could not be kept: %v", err)
	case where != "":
		k.run.say("what the service did: %s", where)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writing = false
}

// close returns when the write in progress has ended.
func (k *recorder) close() { k.writers.Wait() }
