package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/internal/wait"
)

func needsDisks(s *stand.Stand) error {
	if s.Disks == nil {
		return errors.New("the nodes are not on disks of their own")
	}
	return nil
}

// several returns any number of random nodes.
func several(s *striking) []string { return s.some(1 + s.Rand.IntN(len(s.Stand.Names()))) }

func (s *striking) powerLoss(nodes []string) error { return s.down(nodes, s.losePower) }

// losePower cuts the power of nodes: the nodes are dead at once, and some of their unsynced writes are gone. Often
// their disks hang a moment before, because otherwise there is next to no unsynced write.
func (s *striking) losePower(nodes []string) error {
	if s.Rand.IntN(3) > 0 {
		for _, n := range nodes {
			s.Stand.Disks[n].Stall()
			defer s.Stand.Disks[n].Unstall()
		}
		wait.For(context.Background(), s.upTo(maxStuck))
	}
	return stand.Together(nodes, func(n string) error {
		killed := make(chan error, 1)
		go func() { killed <- s.Stand.Kill(n) }()
		select {
		case err := <-killed:
			return errors.Join(err, s.Stand.Disks[n].PowerLoss())
		case <-time.After(struckDead): // the process ends when its disk answers
			return errors.Join(s.Stand.Disks[n].PowerLoss(), <-killed)
		}
	})
}

const (
	maxStuck   = 100 * time.Millisecond // hang before the power goes
	struckDead = 100 * time.Millisecond // time from a kill until only the kernel acts for the process
)

// slow makes every fsync slower. No node has to die of that.
func (s *striking) slow(nodes []string) error {
	delay := minSlow + s.upTo(maxSlow-minSlow)
	fault := s.begin(nodes, nil, "%v each, for %v", delay, s.Hold)
	s.disks(nodes, func(d *lossyfs.Disk) { d.SlowSync(delay) })
	s.hold(fault, s.Hold)
	s.disks(nodes, func(d *lossyfs.Disk) { d.SlowSync(0) })
	return s.start(fault, s.dead(nodes))
}

func (s *striking) disks(nodes []string, do func(d *lossyfs.Disk)) {
	for _, n := range nodes {
		do(s.Stand.Disks[n])
	}
}

const (
	minSlow, maxSlow = 50 * time.Millisecond, 500 * time.Millisecond

	// dying is how long a node may live on with a failing disk: time enough to write again, and to end.
	dying = 15 * time.Second
	// hangs is how long no fsync returns. tooLong is the longest time that a node waits for one.
	hangs, tooLong = 12 * time.Second, 11 * time.Second
	// readyFor is how long a node may take to report that it is ready.
	readyFor = 300 * time.Millisecond
)

// failing makes the disks of nodes fail until the nodes have ended by themselves.
func (s *striking) failing(nodes []string, how string, fail func(d *lossyfs.Disk)) error {
	cut := s.Rand.IntN(2) == 0
	if cut {
		how += ", and then the power"
	}
	fault := s.begin(nodes, nil, "%s", how)
	before := s.failures(nodes)
	s.disks(nodes, fail)
	survived := s.awaitDeath(nodes, dying)
	err := s.unmoved(before, survived)
	if err == nil && cut {
		err = s.losePower(nodes)
	}
	s.Recorder.Mending(fault)
	s.disks(nodes, (*lossyfs.Disk).Heal)
	return errors.Join(err, s.start(fault, s.dead(nodes)))
}

// failures returns the number of calls that each node's disk has refused so far.
func (s *striking) failures(nodes []string) map[string]int64 {
	all := map[string]int64{}
	for _, n := range nodes {
		stats := s.Stand.Disks[n].Stats()
		all[n] = stats.FailedSyncs + stats.FailedWrites
	}
	return all
}

// fewFailures is how many failures a node may survive: they may concern a snapshot, which is no reason to end.
const fewFailures = 2

// unmoved returns an error if a node lives on with a failing disk. A node that wrote nothing meanwhile may.
func (s *striking) unmoved(before map[string]int64, nodes []string) error {
	if s.ctx.Err() != nil {
		return nil // the nodes had no time to end
	}
	now := s.failures(nodes)
	for _, n := range nodes {
		if failed := now[n] - before[n]; failed > fewFailures {
			return &SurvivalError{fmt.Sprintf("%s runs on after its disk has refused it %d times in %v", n, failed, dying)}
		}
	}
	return nil
}

// hung lets no fsync return for longer than a node waits for one. The node then ends, as far as a process can while the
// disk hangs, and wholly when the disk answers. A node that is still starting waits, because no caller relies on it
// yet.
func (s *striking) hung(nodes []string) (err error) {
	starting := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool {
		return s.Stand.AwaitReady(s.ctx, readyFor, n) == nil
	})
	fault := s.begin(nodes, nil, "for %v", hangs)
	s.disks(nodes, (*lossyfs.Disk).Stall)
	wait.For(s.ctx, hangs)
	waited := map[string]time.Duration{}
	for _, n := range nodes {
		waited[n] = s.Stand.Disks[n].Unstall()
	}
	s.Recorder.Mending(fault)
	for _, n := range s.awaitDeath(nodes, time.Second) {
		if waited[n] > tooLong && !slices.Contains(starting, n) && s.ctx.Err() == nil {
			err = &SurvivalError{fmt.Sprintf("%s runs on after an fsync that took %v", n, waited[n])}
		}
	}
	return errors.Join(err, s.start(fault, s.dead(nodes)))
}

// full leaves nodes little room. A node ends at its first write without room, if it makes one. Half the time the dead
// nodes are started again without room, which must do no harm. All are started when there is room again.
func (s *striking) full(nodes []string) (err error) {
	room, again := s.Rand.Int64N(mostRoom), s.Rand.IntN(2) == 0
	fault := s.begin(nodes, nil, "%d KiB left for %v", room>>10, s.Hold)
	s.disks(nodes, func(d *lossyfs.Disk) { d.Limit(room) })
	s.awaitDeath(nodes, s.Hold)
	if down := s.dead(nodes); again && len(down) > 0 {
		err = s.Stand.Start(down...)
		wait.For(s.ctx, s.Hold/2)
		err = errors.Join(err, s.Stand.Kill(down...))
	}
	s.Recorder.Mending(fault)
	s.disks(nodes, (*lossyfs.Disk).Heal)
	return errors.Join(err, s.start(fault, s.dead(nodes)))
}

// mostRoom is so little that a node soon runs out: one segment of a log is larger.
const mostRoom = 2 << 20

func (s *striking) dead(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), s.Stand.Runs)
}

const deathPoll = 20 * time.Millisecond

// lastMoment is how long a node may still take to end after the round's strikes are over.
const lastMoment = time.Second

// awaitDeath waits until nodes have ended by themselves, at most for the given time, and returns those still alive.
func (s *striking) awaitDeath(nodes []string, most time.Duration) (alive []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), most)
	defer cancel()
	defer context.AfterFunc(s.ctx, func() { time.AfterFunc(lastMoment, cancel) })()
	for {
		alive = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !s.Stand.Runs(n) })
		if len(alive) == 0 || !wait.For(ctx, deathPoll) {
			return alive
		}
	}
}
