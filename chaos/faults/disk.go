package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/stand"
)

// The names of the kinds of group "disk". The exported ones are used by other packages.
const (
	PowerLoss    = "power loss of a node"
	PowerLossAll = "power loss of all nodes"
	FailedSync   = "failed fsync"

	powerLossAgain = "power loss again and again"
	slowSync       = "slow fsync"
	slowSyncs      = "slow fsync on all nodes"
	hungSync       = "hung fsync"
	failedWrite    = "failed write"
	fullDisk       = "full disk"
)

// diskKinds returns kinds that strike the disks under nodes. A power loss drops unsynced writes. A node whose disk
// refuses writes must end.
func diskKinds() []Kind {
	kind := func(name string, weight int, strike func(context.Context, *diskStrike) error) Kind {
		deadly := name != slowSync && name != slowSyncs
		ends := name == FailedSync || name == failedWrite || name == hungSync
		return Kind{Name: name, Group: "disk", Weight: weight, Deadly: deadly, Ends: ends, Needs: needDisks,
			Strike: func(ctx context.Context, on Target) error {
				return strike(ctx, &diskStrike{striking{Target: on, kind: name}})
			}}
	}
	return []Kind{
		kind(PowerLoss, 8, func(ctx context.Context, s *diskStrike) error { return s.down(ctx, s.some(1), s.lose) }),
		kind(PowerLossAll, 6, func(ctx context.Context, s *diskStrike) error { return s.down(ctx, s.Stand.Names(), s.lose) }),
		kind(powerLossAgain, 3, func(ctx context.Context, s *diskStrike) error {
			return s.downAgain(ctx, s.some(1+s.Rand.IntN(len(s.Stand.Names()))), s.lose)
		}),
		kind(FailedSync, 5, func(ctx context.Context, s *diskStrike) error {
			return s.failing(ctx, s.some(1), "fsync fails with EIO", func(d *lossyfs.Disk) { d.FailSync(syscall.EIO) })
		}),
		kind(failedWrite, 4, func(ctx context.Context, s *diskStrike) error {
			return s.failing(ctx, s.some(1), "writes fail with EIO", func(d *lossyfs.Disk) { d.FailWrite(syscall.EIO) })
		}),
		kind(slowSync, 5, func(ctx context.Context, s *diskStrike) error { return s.slow(ctx, s.some(1)) }),
		kind(slowSyncs, 2, func(ctx context.Context, s *diskStrike) error { return s.slow(ctx, s.Stand.Names()) }),
		kind(hungSync, 2, func(ctx context.Context, s *diskStrike) error { return s.hung(ctx, s.some(1)) }),
		kind(fullDisk, 4, func(ctx context.Context, s *diskStrike) error { return s.full(ctx, s.some(1)) }),
	}
}

func needDisks(s *stand.Stand) error {
	if s.Disks == nil {
		return errors.New("the nodes are not on disks of their own")
	}
	return nil
}

type diskStrike struct{ striking }

// lose cuts the power of nodes: the nodes are dead at once, and some of their unsynced writes are gone. Often their
// disks hang a moment before, because otherwise there is next to no unsynced write.
func (s *diskStrike) lose(nodes []string) error {
	if s.Rand.IntN(3) > 0 {
		for _, n := range nodes {
			s.Stand.Disks[n].Stall()
			defer s.Stand.Disks[n].Unstall()
		}
		Wait(context.Background(), time.Duration(s.Rand.Int64N(int64(maxStuck))))
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
func (s *diskStrike) slow(ctx context.Context, nodes []string) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	delay := minSlow + time.Duration(s.Rand.Int64N(int64(maxSlow-minSlow)))
	fault := s.strike(ctx, nodes, "%v each, for %v", delay.Round(time.Millisecond), s.Hold.Round(time.Millisecond))
	for _, n := range nodes {
		s.Stand.Disks[n].SlowSync(delay)
	}
	Wait(ctx, s.Hold)
	s.Recorder.Mending(fault)
	for _, n := range nodes {
		s.Stand.Disks[n].SlowSync(0)
	}
	return s.start(fault, s.dead(nodes))
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
func (s *diskStrike) failing(ctx context.Context, nodes []string, how string, fail func(d *lossyfs.Disk)) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	cut := s.Rand.IntN(2) == 0
	if cut {
		how += ", and then the power"
	}
	fault := s.strike(ctx, nodes, "%s", how)
	before := s.failures(nodes)
	for _, n := range nodes {
		fail(s.Stand.Disks[n])
	}
	survived := s.awaitDeath(ctx, nodes, dying)
	err = s.unmoved(ctx, before, survived)
	if err == nil && cut {
		err = s.lose(nodes)
	}
	s.Recorder.Mending(fault)
	s.heal(nodes)
	return errors.Join(err, s.start(fault, s.dead(nodes)))
}

// failures returns the number of calls that each node's disk has refused so far.
func (s *diskStrike) failures(nodes []string) map[string]int64 {
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
func (s *diskStrike) unmoved(ctx context.Context, before map[string]int64, nodes []string) error {
	if ctx.Err() != nil {
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
func (s *diskStrike) hung(ctx context.Context, nodes []string) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	starting := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool {
		return s.Stand.AwaitReady(ctx, readyFor, n) == nil
	})
	fault := s.strike(ctx, nodes, "for %v", hangs)
	for _, n := range nodes {
		s.Stand.Disks[n].Stall()
	}
	Wait(ctx, hangs)
	waited := map[string]time.Duration{}
	for _, n := range nodes {
		waited[n] = s.Stand.Disks[n].Unstall()
	}
	s.Recorder.Mending(fault)
	for _, n := range s.awaitDeath(ctx, nodes, time.Second) {
		if waited[n] > tooLong && !slices.Contains(starting, n) && ctx.Err() == nil {
			err = &SurvivalError{fmt.Sprintf("%s runs on after an fsync that took %v", n, waited[n])}
		}
	}
	return errors.Join(err, s.start(fault, s.dead(nodes)))
}

// full leaves nodes little room. A node ends at its first write without room, if it makes one. Half the time the dead
// nodes are started again without room, which must do no harm. All are started when there is room again.
func (s *diskStrike) full(ctx context.Context, nodes []string) error {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	room, again := s.Rand.Int64N(mostRoom), s.Rand.IntN(2) == 0
	fault := s.strike(ctx, nodes, "%d KiB left for %v", room>>10, s.Hold.Round(time.Millisecond))
	for _, n := range nodes {
		s.Stand.Disks[n].Limit(room)
	}
	s.awaitDeath(ctx, nodes, s.Hold)
	if down := s.dead(nodes); again && len(down) > 0 {
		err = s.Stand.Start(down...)
		Wait(ctx, s.Hold/2)
		err = errors.Join(err, s.Stand.Kill(down...))
	}
	s.Recorder.Mending(fault)
	s.heal(nodes)
	return errors.Join(err, s.start(fault, s.dead(nodes)))
}

// mostRoom is so little that a node soon runs out: one segment of a log is larger.
const mostRoom = 2 << 20

func (s *diskStrike) heal(nodes []string) {
	for _, n := range nodes {
		s.Stand.Disks[n].Heal()
	}
}

func (s *diskStrike) dead(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), s.Stand.Runs)
}

const deathPoll = 20 * time.Millisecond

// lastMoment is how long a node may still take to end after the round's strikes are over.
const lastMoment = time.Second

// awaitDeath waits until nodes have ended by themselves, at most for the given time, and returns those still alive.
func (s *diskStrike) awaitDeath(round context.Context, nodes []string, most time.Duration) (alive []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(round), most)
	defer cancel()
	defer context.AfterFunc(round, func() { time.AfterFunc(lastMoment, cancel) })()
	for {
		alive = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !s.Stand.Runs(n) })
		if len(alive) == 0 || !Wait(ctx, deathPoll) {
			return alive
		}
	}
}
