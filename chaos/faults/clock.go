package faults

import (
	"context"
	"errors"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
)

// The names of the kinds of group "clock". The exported ones are used by other packages.
const (
	LeaderClockAhead = "leader's clock set ahead"
	LeaderClockBack  = "leader's clock set back"

	clockSlightlyOff = "clock slightly off"
	clockFarOff      = "clock far off"
	clockDrifts      = "clock drifts"
	clockSetInPause  = "clock set during a pause"
)

// clockKinds returns kinds that set the wall clock of one node and set it right in the end. Only one clock is wrong at
// a time: two of three clocks must be right for the nodes to know the time. These faults touch no process, and combine
// with all other faults.
func clockKinds() []Kind {
	kind := func(name string, weight int, strike func(context.Context, *clockStrike) error) Kind {
		return Kind{Name: name, Group: "clock", Weight: weight, Needs: needsClocks,
			Strike: func(ctx context.Context, on Target) error {
				return strike(ctx, &clockStrike{striking{Target: on, kind: name}})
			}}
	}
	return []Kind{
		kind(clockSlightlyOff, 5, func(ctx context.Context, s *clockStrike) error {
			return s.set(ctx, s.some(1), s.either(slightly+time.Duration(s.Rand.Int64N(int64(slightly)))))
		}),
		kind(clockFarOff, 4, func(ctx context.Context, s *clockStrike) error {
			return s.set(ctx, s.some(1), s.either(pick(s.Rand, far)))
		}),
		kind(LeaderClockAhead, 4, func(ctx context.Context, s *clockStrike) error {
			return s.set(ctx, s.leader(ctx), pick(s.Rand, far))
		}),
		kind(LeaderClockBack, 4, func(ctx context.Context, s *clockStrike) error {
			return s.set(ctx, s.leader(ctx), -pick(s.Rand, far))
		}),
		kind(clockDrifts, 4, func(ctx context.Context, s *clockStrike) error { return s.drift(ctx, s.some(1)) }),
		kind(clockSetInPause, 3, func(ctx context.Context, s *clockStrike) error {
			return s.setInPause(ctx, s.leader(ctx), s.either(pick(s.Rand, far)))
		}),
	}
}

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

// clockStrike is a clock fault under way.
type clockStrike struct{ striking }

func (s *clockStrike) either(d time.Duration) time.Duration {
	if s.Rand.IntN(2) == 0 {
		return -d
	}
	return d
}

// theClocks is the claim of each clock fault, so that only one such fault strikes at a time.
const theClocks = "all clocks"

// begin claims the clocks and records the fault. The returned end sets the clock right, and records that.
func (s *clockStrike) begin(
	ctx context.Context, nodes []string, skew time.Duration, detail string,
) (clock *stand.Clock, end func(), err error) {
	if len(nodes) == 0 {
		return nil, nil, ErrBusy
	}
	release, ok := s.Stand.Claim(theClocks)
	if !ok {
		return nil, nil, ErrBusy
	}
	clock = s.Stand.Clocks[nodes[0]]
	fault := s.Recorder.Strike(history.Fault{
		Kind: s.kind, Nodes: nodes, Shards: s.Stand.LedBy(ctx, nodes...), Detail: detail, Skew: skew,
		Alone: len(s.Stand.Clocks) == 1,
	})
	return clock, func() {
		s.Recorder.Mending(fault)
		clock.Set(0)
		s.Recorder.Mended(fault)
		release()
	}, nil
}

// set sets a node's clock for a while.
func (s *clockStrike) set(ctx context.Context, nodes []string, by time.Duration) error {
	clock, end, err := s.begin(ctx, nodes, by, "by "+by.Round(time.Millisecond).String())
	if err != nil {
		return err
	}
	defer end()
	clock.Set(by)
	Wait(ctx, s.Hold)
	return nil
}

const (
	driftStep  = 10 * time.Millisecond
	driftFrom  = 150 * time.Millisecond
	driftRates = 20 // largest rate, in parts in a thousand: a clock that drifts so fast is broken
)

// drift sets a clock near the bound and lets its error grow little by little, over the bound if there is time.
func (s *clockStrike) drift(ctx context.Context, nodes []string) error {
	sign, rate := s.either(1), time.Duration(1+s.Rand.IntN(driftRates))
	hold := s.stretched()
	most := sign * (driftFrom + hold/1000*rate)
	clock, end, err := s.begin(ctx, nodes, most, "to "+most.Round(time.Millisecond).String())
	if err != nil {
		return err
	}
	defer end()
	tick := time.NewTicker(driftStep)
	defer tick.Stop()
	for began := time.Now(); ; {
		gone := time.Since(began)
		if gone >= hold {
			return nil
		}
		clock.Set(sign * (driftFrom + gone/1000*rate))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// setInPause sets a node's clock while the node is paused.
func (s *clockStrike) setInPause(ctx context.Context, nodes []string, by time.Duration) (err error) {
	release, err := s.claim(nodes)
	if err != nil {
		return err
	}
	defer release()
	clock, end, err := s.begin(ctx, nodes, by, "by "+by.Round(time.Millisecond).String())
	if err != nil {
		return err
	}
	defer end()
	if err := s.Stand.Pause(nodes...); err != nil {
		return err
	}
	Wait(ctx, s.Hold/2)
	clock.Set(by)
	if err := s.Stand.Resume(nodes...); err != nil {
		return err
	}
	Wait(ctx, s.Hold/2)
	return nil
}
