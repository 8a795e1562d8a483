package workload

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Load plays scripts. Its methods may run at the same time.
type Load struct {
	cfg    Config
	caller *caller
	sights sights // of the tasks that consumers lease
}

// New makes a load; it makes no call yet.
func New(cfg Config) (*Load, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := newCaller(cfg.Recorder, cfg.Nodes)
	if err != nil {
		return nil, err
	}
	return &Load{cfg: cfg, caller: c, sights: sights{seen: map[string]uint64{}}}, nil
}

// Run plays scripts until all are played or stop is closed, and returns when those that were begun are over. The
// context ends them in the middle.
func (l *Load) Run(ctx context.Context, stop <-chan struct{}) {
	turns := make(chan int)
	var workers sync.WaitGroup
	for range l.cfg.Workers {
		workers.Go(func() {
			for i := range turns {
				l.play(ctx, i)
			}
		})
	}
	l.pace(ctx, stop, turns)
	close(turns)
	workers.Wait()
}

// pace hands out the scripts' numbers. When all workers are busy it waits, so that a cluster that stands still is
// not buried in calls.
func (l *Load) pace(ctx context.Context, stop <-chan struct{}, turns chan<- int) {
	tick := time.NewTicker(time.Second / time.Duration(l.cfg.PerSecond))
	defer tick.Stop()
	for i := 0; l.cfg.Tasks == 0 || i < l.cfg.Tasks; i++ {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case turns <- i:
		}
	}
}

// hotEvery: one script in that many calls a hot id.
const hotEvery = 12

func (l *Load) play(ctx context.Context, i int) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
	if l.cfg.Hot > 0 && i%hotEvery == 0 {
		l.playHot(ctx, rng, i/hotEvery)
		return
	}
	pick(rng, scripts)(l, ctx, rng, l.id(i))
}

func (l *Load) id(i int) string { return l.cfg.Prefix + strconv.Itoa(i) }

// delay is mostly spread over the whole range, and sometimes next to nothing.
func (l *Load) delay(rng *rand.Rand) time.Duration {
	if rng.IntN(10) == 0 {
		return time.Duration(rng.IntN(30)) * time.Millisecond
	}
	return time.Duration(rng.Int64N(int64(l.cfg.MaxDelay))).Round(time.Millisecond)
}

// due is an absolute due time, of which the run knows beforehand what the service will make of it.
func (l *Load) due(rng *rand.Rand) time.Time { return l.cfg.Recorder.Now().Add(l.delay(rng)).Time() }

// pulls tells whether a task is to be one that consumers pull.
func (l *Load) pulls(rng *rand.Rand) bool { return rng.IntN(100) < l.cfg.Pulled }

// some is a task that is due at an instant.
func (l *Load) some(rng *rand.Rand) task { return task{fireAt: l.due(rng), pulled: l.pulls(rng)} }

// later is a task that is due after a delay.
func (l *Load) later(rng *rand.Rand) task {
	return task{delay: max(l.delay(rng), time.Millisecond), pulled: l.pulls(rng)}
}

// new schedules a task of its own id, and tells whether that is certain.
func (l *Load) new(ctx context.Context, rng *rand.Rand, id string, t task) (history.Answer, bool) {
	outcome, answer := l.perform(ctx, rng, l.schedule(id, t))
	return answer, outcome == history.OK
}
