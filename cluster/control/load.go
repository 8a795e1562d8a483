package control

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/placement"
)

// The times of the balance of load. Shards are measured for long before leaderships move, since a leadership that moves
// costs more than an uneven minute.
const (
	loadLook   = 30 * time.Second // between two measurements
	loadMemory = 10 * time.Minute // of the mean rate
	loadSure   = 5 * time.Minute  // of measuring before the first exchange
	loadCalm   = time.Minute      // between two exchanges
)

// loads measures the load of the shards: commands that they apply a second. Its methods are safe for concurrent use.
type loads struct {
	mu        sync.Mutex
	began     time.Time // first measurement
	at        time.Time // last measurement
	exchanged time.Time // last exchange
	commands  map[uint32]uint64
	rates     map[uint32]float64
}

// run measures until ctx ends.
func (l *loads) run(ctx context.Context, commands func(context.Context) map[uint32]uint64) {
	ticker := time.NewTicker(loadLook)
	defer ticker.Stop()
	for {
		l.note(commands(ctx), time.Now())
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// note adds a measurement: the commands that each shard has applied in its life.
func (l *loads) note(commands map[uint32]uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commands == nil {
		l.began, l.commands, l.rates = now, make(map[uint32]uint64), make(map[uint32]float64)
	}
	passed := now.Sub(l.at)
	weight := 1 - math.Exp(-passed.Seconds()/loadMemory.Seconds())
	for shard, count := range commands {
		if before, known := l.commands[shard]; known && count >= before {
			rate := float64(count-before) / passed.Seconds()
			l.rates[shard] += weight * (rate - l.rates[shard])
		}
		l.commands[shard] = count
	}
	l.at = now
}

// balance returns two shards that should exchange their preferred leaders, or nil.
func (l *loads) balance(
	state *clusterpb.ControlState, nodes []placement.Node, now time.Time,
) *clusterpb.Retarget {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commands == nil || now.Sub(l.began) < loadSure || now.Sub(l.exchanged) < loadCalm {
		return nil
	}
	rates := make([]float64, len(state.Shards))
	for i, s := range state.Shards {
		if len(s.Target) > 0 {
			return nil // shards are on their way
		}
		rates[i] = l.rates[s.Id]
	}
	i, j, ok := placement.Exchange(nodes, reshape.Placement(state), rates)
	if !ok {
		return nil
	}
	l.exchanged = now
	a, b := state.Shards[i], state.Shards[j]
	return &clusterpb.Retarget{Shards: []*clusterpb.Shard{
		{Id: a.Id, Target: a.Replicas, Preferred: b.Preferred}, {Id: b.Id, Target: b.Replicas, Preferred: a.Preferred},
	}}
}
