package faults

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/internal/wait"
)

// slightly is the least error of a slightly wrong clock; its largest is twice that. Nodes must tolerate clocks that are
// off by 250 ms, and the checks hold them to that. Errors within that bound stay well within it, and errors beyond it
// are well beyond.
const slightly = 100 * time.Millisecond

var far = []time.Duration{500 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Hour}

func needsClocks(s *stand.Stand) error {
	if s.Clocks == nil {
		return errors.New("a stand whose nodes have clocks that can be set")
	}
	return nil
}

func (s *striking) either(d time.Duration) time.Duration {
	if s.Rand.IntN(2) == 0 {
		return -d
	}
	return d
}

// skew records that the clock of a node gets an error. The returned end sets the clock right, and records that.
func (s *striking) skew(nodes []string, by time.Duration, how string) (clock *stand.Shared, end func()) {
	clock = s.Stand.Clocks[nodes[0]]
	fault := s.begin(nodes, func(f *history.Fault) { f.Skew, f.Alone = by, len(s.Stand.Clocks) == 1 }, how, by)
	return clock, func() {
		s.Recorder.Mending(fault)
		clock.Set(0)
		s.Recorder.Mended(fault)
	}
}

// setClock sets a node's clock for a while.
func (s *striking) setClock(nodes []string, by time.Duration) error {
	clock, end := s.skew(nodes, by, "by %v")
	defer end()
	clock.Set(int64(by))
	wait.For(s.ctx, s.Hold)
	return nil
}

const (
	driftStep  = 10 * time.Millisecond
	driftFrom  = 150 * time.Millisecond
	driftRates = 20 // largest rate, in parts in a thousand: a clock that drifts so fast is broken
)

// drift sets a clock near the bound and lets its error grow little by little, over the bound if there is time.
func (s *striking) drift(nodes []string) error {
	sign, rate := s.either(1), time.Duration(1+s.Rand.IntN(driftRates))
	hold := s.stretched()
	clock, end := s.skew(nodes, sign*(driftFrom+hold/1000*rate), "to %v")
	defer end()
	for began, gone := time.Now(), time.Duration(0); gone < hold; gone = time.Since(began) {
		clock.Set(int64(sign * (driftFrom + gone/1000*rate)))
		if !wait.For(s.ctx, driftStep) {
			break
		}
	}
	return nil
}

// setInPause sets a node's clock while the node is paused.
func (s *striking) setInPause(nodes []string) error {
	by := s.either(pick(s.Rand, far))
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	clock, end := s.skew(nodes, by, "by %v")
	defer end()
	if err := s.Stand.Pause(nodes...); err != nil {
		return err
	}
	wait.For(s.ctx, s.Hold/2)
	clock.Set(int64(by))
	if err := s.Stand.Resume(nodes...); err != nil {
		return err
	}
	wait.For(s.ctx, s.Hold/2)
	return nil
}
