package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// The names of the kinds of group "process", except those of package history and KillOrphaned.
const (
	KillAny        = "kill -9 of a node"
	KillMost       = "kill -9 of all nodes but one"
	killTwo        = "kill -9 of two nodes"
	crashLoop      = "crash loop of a node"
	pauseBriefly   = "short pause of a leader"
	pauseAll       = "pause of all nodes"
	restart        = "restart of a node"
	RollingRestart = "rolling restart"
)

// processKinds returns kinds that strike nodes' processes with signals. A killed node vanishes without a message. A
// paused node wakes up with its old beliefs. A node that is asked to stop gives its leaderships away.
func processKinds() []Kind {
	kind := func(name string, weight int, strike func(context.Context, *striking) error) Kind {
		return Kind{Name: name, Group: "process", Weight: weight, Strike: func(ctx context.Context, on Target) error {
			return strike(ctx, &striking{Target: on, kind: name})
		}}
	}
	return []Kind{
		kind(history.KillLeader, 10, func(ctx context.Context, s *striking) error { return s.kill(ctx, s.leader(ctx)) }),
		kind(KillAny, 5, func(ctx context.Context, s *striking) error { return s.kill(ctx, s.some(1)) }),
		kind(killTwo, 3, func(ctx context.Context, s *striking) error { return s.kill(ctx, s.some(2)) }),
		kind(history.KillAll, 3, func(ctx context.Context, s *striking) error { return s.kill(ctx, s.Stand.Names()) }),
		kind(KillMost, 1, func(ctx context.Context, s *striking) error { return s.killMost(ctx) }),
		kind(crashLoop, 3, func(ctx context.Context, s *striking) error { return s.crashLoop(ctx, s.some(1)) }),
		kind(history.PauseLeader, 6, func(ctx context.Context, s *striking) error {
			return s.pause(ctx, s.leader(ctx), max(s.Hold, longPause))
		}),
		kind(pauseBriefly, 6, func(ctx context.Context, s *striking) error {
			return s.pause(ctx, s.leader(ctx), time.Duration(1+s.Rand.Int64N(int64(shortPause))))
		}),
		kind(pauseAll, 2, func(ctx context.Context, s *striking) error { return s.pause(ctx, s.Stand.Names(), s.Hold) }),
		kind(KillOrphaned, 3, func(ctx context.Context, s *striking) error { return s.killOrphaned(ctx) }),
		kind(restart, 4, func(ctx context.Context, s *striking) error { return s.restart(ctx, s.some(1)) }),
		kind(RollingRestart, 2, func(ctx context.Context, s *striking) error { return s.restart(ctx, s.Stand.Names()) }),
	}
}

const (
	longPause  = 2500 * time.Millisecond // longer than an election: the old leader wakes up to a new one
	shortPause = 600 * time.Millisecond  // shorter than an election: the leader goes on leading
)

// striking is a fault under way.
type striking struct {
	Target
	kind string
}

// leader returns the leader of the target's shard, or that of a random shard. It returns none if no leader is known.
func (s *striking) leader(ctx context.Context) []string {
	leaders, err := s.Stand.Leaders(ctx)
	if err != nil {
		return nil // no node answers at the moment
	}
	shards := make([]uint32, 0, len(leaders))
	for shard := range leaders {
		shards = append(shards, shard)
	}
	slices.Sort(shards)
	chosen := s.Shard
	if chosen == 0 && len(shards) > 0 {
		chosen = pick(s.Rand, shards)
	}
	if leader, ok := leaders[chosen]; ok {
		return []string{leader}
	}
	return nil
}

// some returns n random nodes, or all if there are fewer; the target's node if it has one.
func (s *striking) some(n int) []string {
	if s.Node != "" {
		return []string{s.Node}
	}
	names := s.Stand.Names()
	s.Rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(n, len(names))]
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// claim takes the nodes for this fault. All of them must run: a node that is down is another fault's, or has died.
func (s *striking) claim(nodes []string) (release func(), err error) {
	if len(nodes) == 0 {
		return nil, ErrBusy
	}
	release, ok := s.Stand.Claim(nodes...)
	if !ok {
		return nil, ErrBusy
	}
	for _, n := range nodes {
		if !s.Stand.Runs(n) {
			release()
			return nil, ErrBusy
		}
	}
	return release, nil
}

func (s *striking) strike(ctx context.Context, nodes []string, format string, args ...any) int {
	return s.Recorder.Strike(s.fault(ctx, nodes, format, args...))
}

// strikeDead records a fault that ends the processes of its nodes and starts them again in the end.
func (s *striking) strikeDead(ctx context.Context, nodes []string, format string, args ...any) int {
	f := s.fault(ctx, nodes, format, args...)
	f.Restarted = true
	return s.Recorder.Strike(f)
}

func (s *striking) fault(ctx context.Context, nodes []string, format string, args ...any) history.Fault {
	return history.Fault{
		Kind: s.kind, Nodes: nodes, Shards: s.Stand.LedBy(ctx, nodes...), Detail: fmt.Sprintf(format, args...),
	}
}

// kill kills nodes with SIGKILL, all at once, and starts them again after a while.
func (s *striking) kill(ctx context.Context, nodes []string) error {
	return s.down(ctx, nodes, s.sigkill)
}

func (s *striking) sigkill(nodes []string) error { return s.Stand.Kill(nodes...) }

// down ends nodes by a function, all at once, and starts them again after a while.
func (s *striking) down(ctx context.Context, nodes []string, end func(nodes []string) error) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	fault := s.strikeDead(ctx, nodes, "dead for %v", s.Hold.Round(time.Millisecond))
	if err := end(nodes); err != nil {
		return err
	}
	Wait(ctx, s.Hold)
	s.Recorder.Mending(fault)
	return s.start(fault, nodes)
}

// knownAlone is the time after which a node must know that it has no majority.
const knownAlone = 10 * time.Second

// killMost kills all nodes but one, and asks that one for its readiness before it starts the others again.
func (s *striking) killMost(ctx context.Context) error {
	nodes := s.some(len(s.Stand.Names()))
	if len(nodes) < 2 {
		return ErrBusy
	}
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	left, dead := nodes[0], nodes[1:]
	fault := s.strikeDead(ctx, dead, "dead for %v", knownAlone)
	if err := s.Stand.Kill(dead...); err != nil {
		return err
	}
	if Wait(ctx, knownAlone) {
		if k, err := keep(ctx, strings.TrimPrefix(s.Stand.URLs(left)[0], "http://")); err == nil {
			s.ask(ctx, k, history.AskMinority, left, "/readyz")
			_ = k.Close()
		}
	}
	s.Recorder.Mending(fault)
	return s.start(fault, dead)
}

// start starts nodes and records the fault as mended as soon as their processes run. The writes that their shards
// accept later show whether the nodes are ready.
func (s *striking) start(fault int, nodes []string) error {
	if err := s.Stand.Start(nodes...); err != nil {
		return err
	}
	s.Recorder.Mended(fault)
	return nil
}

const maxCrashes = 5

// crashLoop kills nodes, and kills them again several times while they recover from the kill before.
func (s *striking) crashLoop(ctx context.Context, nodes []string) error {
	return s.downAgain(ctx, nodes, s.sigkill)
}

// downAgain ends nodes by a function, and again several times while they recover from the end before.
func (s *striking) downAgain(ctx context.Context, nodes []string, end func(nodes []string) error) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	lives := make([]time.Duration, 2+s.Rand.IntN(maxCrashes-1))
	var told []string
	for i := range lives {
		lives[i] = time.Duration(1 + s.Rand.Int64N(int64(time.Second)))
		told = append(told, lives[i].Round(time.Millisecond).String())
	}
	fault := s.strikeDead(ctx, nodes, "again after %s", strings.Join(told, ", "))
	if err := end(nodes); err != nil {
		return err
	}
	for _, life := range lives {
		if err := s.Stand.Start(nodes...); err != nil {
			return err
		}
		if !Wait(ctx, life) {
			break
		}
		if err := end(nodes); err != nil {
			return err
		}
	}
	s.Recorder.Mending(fault)
	return s.start(fault, nodes)
}

// pause suspends nodes and resumes them after a while. They then still hold their old beliefs.
func (s *striking) pause(ctx context.Context, nodes []string, hold time.Duration) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	fault := s.strike(ctx, nodes, "for %v", hold.Round(time.Millisecond))
	if err := s.Stand.Pause(nodes...); err != nil {
		return err
	}
	Wait(ctx, hold)
	s.Recorder.Mending(fault)
	if err := s.Stand.Resume(nodes...); err != nil {
		return err
	}
	s.Recorder.Mended(fault)
	return nil
}

const (
	// upFor is how long a rolling restart waits for a started node to be ready. Another fault may prevent that for longer.
	upFor = 10 * time.Second
	// maxDown is the longest time that a restarted node stays down.
	maxDown = time.Second
)

// restart asks nodes to stop with SIGTERM, one after the other, and starts each again before the next one.
func (s *striking) restart(ctx context.Context, nodes []string) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	down := time.Duration(1 + s.Rand.Int64N(int64(maxDown)))
	s.Rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	f := s.fault(ctx, nodes, "asked to stop, one after the other, down for %v", down.Round(time.Millisecond))
	f.Restarted, f.Asked = true, true
	fault := s.Recorder.Strike(f)
	for i, n := range nodes {
		if i > 0 && s.Stand.AwaitReady(ctx, upFor, nodes[i-1]) != nil && ctx.Err() != nil {
			break
		}
		if err := s.Stand.Terminate(n); err != nil {
			return err
		}
		Wait(ctx, down)
		if err := s.Stand.Start(n); err != nil {
			return err
		}
	}
	s.Recorder.Mending(fault)
	s.Recorder.Mended(fault)
	return nil
}
