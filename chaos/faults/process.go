package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	longPause  = 2500 * time.Millisecond // longer than an election: the old leader wakes up to a new one
	shortPause = 600 * time.Millisecond  // shorter than an election: the leader goes on leading
)

// kill kills nodes with SIGKILL, all at once, and starts them again after a while.
func (s *striking) kill(nodes []string) error { return s.down(nodes, s.sigkill) }

func (s *striking) sigkill(nodes []string) error { return s.Stand.Kill(nodes...) }

// down ends nodes by a function, all at once, and starts them again after a while.
func (s *striking) down(nodes []string, end func(nodes []string) error) error {
	fault := s.begin(nodes, restarts, "dead for %v", s.Hold)
	if err := end(nodes); err != nil {
		return err
	}
	s.hold(fault, s.Hold)
	return s.start(fault, nodes)
}

// knownAlone is the time after which a node must know that it has no majority.
const knownAlone = 10 * time.Second

// killMost kills all nodes but one, and asks that one for its readiness before it starts the others again.
func (s *striking) killMost(nodes []string) error {
	if len(nodes) < 2 {
		return ErrBusy
	}
	left, dead := nodes[0], nodes[1:]
	fault := s.begin(dead, restarts, "dead for %v", knownAlone)
	if err := s.sigkill(dead); err != nil {
		return err
	}
	if wait.For(s.ctx, knownAlone) {
		if k, err := keep(s.ctx, strings.TrimPrefix(s.Stand.URLs(left)[0], "http://")); err == nil {
			s.ask(k, history.AskMinority, left, "/readyz")
			_ = k.Close()
		}
	}
	s.Recorder.Mending(fault)
	return s.start(fault, dead)
}

// shuffled returns all nodes in random order.
func shuffled(s *striking) []string { return s.some(len(s.Stand.Names())) }

// leaderFirst returns the leader of a shard, and then the other nodes. It returns none if no leader is known.
func leaderFirst(s *striking) []string {
	first := leader(s)
	if len(first) == 0 {
		return nil
	}
	return append(first, slices.DeleteFunc(s.Stand.Names(), func(n string) bool { return n == first[0] })...)
}

// orphaned is how long the leader lives on without followers: less than a lease, so that it still believes that it
// leads.
const orphaned = 250 * time.Millisecond

// killOrphaned kills all nodes but the leader of a shard, then the leader, and starts the others again. No other node
// knows the leader's proposals from between. Pausing the followers would not do: the system would still receive the
// proposals for them.
func (s *striking) killOrphaned(nodes []string) error {
	leader, others := nodes[:1], nodes[1:]
	fault := s.begin(nodes, restarts, "%s the last one, dead for %v", leader[0], s.Hold)
	if err := s.sigkill(others); err != nil {
		return err
	}
	wait.For(s.ctx, orphaned)
	if err := s.sigkill(leader); err != nil {
		return err
	}
	if err := s.Stand.Start(others...); err != nil {
		return err
	}
	s.hold(fault, s.Hold)
	return s.start(fault, leader)
}

const maxCrashes = 5

// crashLoop kills nodes, and kills them again several times while they recover from the kill before.
func (s *striking) crashLoop(nodes []string) error { return s.downAgain(nodes, s.sigkill) }

// downAgain ends nodes by a function, and again several times while they recover from the end before.
func (s *striking) downAgain(nodes []string, end func(nodes []string) error) error {
	lives := make([]time.Duration, 2+s.Rand.IntN(maxCrashes-1))
	var delays []string
	for i := range lives {
		lives[i] = 1 + s.upTo(time.Second)
		delays = append(delays, lives[i].Round(time.Millisecond).String())
	}
	fault := s.begin(nodes, restarts, "again after %s", strings.Join(delays, ", "))
	if err := end(nodes); err != nil {
		return err
	}
	for _, life := range lives {
		if err := s.Stand.Start(nodes...); err != nil {
			return err
		}
		if !wait.For(s.ctx, life) {
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
func (s *striking) pause(nodes []string, hold time.Duration) error {
	fault := s.begin(nodes, nil, "for %v", hold)
	if err := s.Stand.Pause(nodes...); err != nil {
		return err
	}
	s.hold(fault, hold)
	return s.mended(fault, s.Stand.Resume(nodes...))
}

const (
	// upFor is how long a rolling restart waits for a started node to be ready. Another fault may prevent that for longer.
	upFor = 10 * time.Second
	// maxDown is the longest time that a restarted node stays down.
	maxDown = time.Second
)

// restart asks nodes to stop with SIGTERM, one after the other, and starts each again before the next one.
func (s *striking) restart(nodes []string) error {
	down := 1 + s.upTo(maxDown)
	s.Rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	asked := func(f *history.Fault) { f.Restarted, f.Asked = true, true }
	fault := s.begin(nodes, asked, "asked to stop, one after the other, down for %v", down)
	for i, n := range nodes {
		if i > 0 && s.Stand.AwaitReady(s.ctx, upFor, nodes[i-1]) != nil && s.ctx.Err() != nil {
			break
		}
		if err := s.Stand.Terminate(n); err != nil {
			return err
		}
		wait.For(s.ctx, down)
		if err := s.Stand.Start(n); err != nil {
			return err
		}
	}
	s.Recorder.Mending(fault)
	return s.mended(fault, nil)
}

// freeFor is how long a rolling upgrade waits for a node that another fault holds.
const freeFor = 15 * time.Second

// rollingUpgrade changes all nodes to the other build, lets them run for a while, and changes them back in another
// order, also after the context has ended. It skips nodes that other faults hold for long. A node that keeps the other
// build in the end gets its own one back when the stand is healed.
func (s *striking) rollingUpgrade(nodes []string) error {
	for _, node := range nodes {
		if err := s.change(node, true); err != nil {
			return err
		}
	}
	wait.For(s.ctx, s.Hold)
	strays := s.Stand.Strays()
	s.Rand.Shuffle(len(strays), func(i, j int) { strays[i], strays[j] = strays[j], strays[i] })
	s.ctx = context.WithoutCancel(s.ctx)
	for _, node := range strays {
		if err := s.change(node, false); err != nil {
			return err
		}
	}
	return nil
}

// change changes the build of a node, and waits until the node is ready. It does nothing after the context has ended.
func (s *striking) change(node string, toOther bool) error {
	release, err := s.claim([]string{node})
	for end := time.Now().Add(freeFor); err != nil; release, err = s.claim([]string{node}) {
		if time.Now().After(end) || !wait.For(s.ctx, freeFor/100) {
			return nil
		}
	}
	defer release()
	if s.ctx.Err() != nil {
		return nil
	}
	build := "its own build"
	if toOther {
		build = "the other build"
	}
	fault := s.begin([]string{node}, restarts, "stopped, and started with %s", build)
	if err := s.Stand.Terminate(node); err != nil {
		return err
	}
	s.Recorder.Mending(fault)
	if err := s.mended(fault, s.Stand.Change(node, toOther)); err != nil {
		return err
	}
	_ = s.Stand.AwaitReady(s.ctx, upFor, node) // another fault may keep the node from being ready
	return nil
}

func needsMemory(s *stand.Stand) error {
	if s.Memories == nil {
		return errors.New("the nodes' memory cannot be bounded")
	}
	return nil
}

// mostMemory is the most memory that is left to a node: little more than it takes and gives back all the time.
const mostMemory = 4 << 20

// squeeze leaves nodes so little memory that the kernel kills them sooner or later, in the middle of any work.
func (s *striking) squeeze(nodes []string) error {
	room := s.Rand.Int64N(mostMemory)
	fault := s.begin(nodes, nil, "%d KiB left for %v", room>>10, s.Hold)
	var failed []error
	for _, n := range nodes {
		failed = append(failed, s.Stand.Memories[n].Squeeze(room))
	}
	s.hold(fault, s.Hold)
	for _, n := range nodes {
		failed = append(failed, s.Stand.Memories[n].Release())
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("bounding memory: %w", err)
	}
	return s.start(fault, nodes)
}
