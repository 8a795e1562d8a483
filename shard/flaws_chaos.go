//go:build chaos

package shard

import (
	"bytes"
	"context"
	"sync"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/fsm/task"
)

// flawReadsStale reports whether reads are answered without proof of leadership.
func flawReadsStale() bool { return flaw.StaleRead.On() }

// flawBlinds keeps a shard from comparing clocks, and from noticing that its own was set.
func flawBlinds(c *Config) {
	if flaw.BlindClock.On() {
		c.ClockAgrees, c.Timing.ClockJump = nil, never
	}
}

// foresight is the flaw fire-before-commit: a leader applies what it proposes to a machine of its own, and starts the
// attempts that this one grants, before a majority has the entry.
type foresight struct {
	machine *fsm.Machine    // nil until the Takeover is applied
	started map[uint64]bool // the fences of what was started so, and is not committed yet
}

// foresights holds the foresight of each proposer: *proposer → *foresight.
var foresights sync.Map

func (p *proposer) foresight() *foresight {
	f, _ := foresights.LoadOrStore(p, &foresight{})
	return f.(*foresight)
}

// commit is propose; the flaw starts the entry's grants before it.
func (p *proposer) commit(ctx context.Context, e *entry) (applied, error) {
	if !flaw.FireBeforeCommit.On() {
		return p.propose(ctx, e)
	}
	p.fireProposed(e)
	got, err := p.propose(ctx, e)
	if err == nil {
		got.Grants = p.notFired(e, got.Grants)
	}
	return got, err
}

// machine returns the machine from which attempts are read: with the flaw, the one that runs ahead.
func (f *firing) machine() *fsm.Machine {
	if flaw.FireBeforeCommit.On() {
		return f.lead.proposer.foresight().machine
	}
	return f.shard.machine
}

// fireProposed starts what an entry grants that is about to be proposed.
func (p *proposer) fireProposed(e *entry) {
	grants, err := p.foresight().proposed(e)
	if err != nil {
		p.shard.cfg.Fatal(err)
	}
	p.lead.firing.add(grants, false)
}

// notFired leaves out of an entry's grants, now that it is committed, what was started before.
func (p *proposer) notFired(e *entry, grants []task.Grant) []task.Grant {
	if e.takeover {
		if err := p.foresight().begin(p.shard.cfg.ID, p.shard.machine); err != nil {
			p.shard.cfg.Fatal(err)
		}
	}
	return p.foresight().notStarted(grants)
}

// begin copies the machine as the Takeover left it.
func (f *foresight) begin(shard uint32, committed *fsm.Machine) error {
	var state bytes.Buffer
	snapshot := committed.Snapshot()
	defer snapshot.Release()
	if _, err := snapshot.WriteTo(&state); err != nil {
		return err
	}
	f.machine, f.started = fsm.New(shard), map[uint64]bool{}
	return f.machine.Restore(&state)
}

// proposed returns the pushed grants of an entry that is about to be proposed.
func (f *foresight) proposed(e *entry) ([]task.Grant, error) {
	if f.machine == nil {
		return nil, nil
	}
	got, err := f.machine.Apply(e.data, true)
	var pushed []task.Grant
	for _, g := range got.Grants {
		if g.Tag == 0 {
			f.started[g.Fence] = true
			pushed = append(pushed, g)
		}
	}
	return pushed, err
}

// notStarted leaves out what was started when it was proposed.
func (f *foresight) notStarted(grants []task.Grant) []task.Grant {
	var left []task.Grant
	for _, g := range grants {
		if !f.started[g.Fence] {
			left = append(left, g)
		}
		delete(f.started, g.Fence)
	}
	return left
}
