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

// flawReadsStale reports whether the flaw of reads without proof of leadership is on.
func flawReadsStale() bool { return flaw.StaleRead.On() }

// flawRefusesTransfer reports whether the flaw is on with which an urgent transfer takes no other one's place.
func flawRefusesTransfer() bool { return flaw.RefusedTransfer.On() }

// flawBlinds keeps a shard, if the flaw is on, from comparing clocks and from noticing that its own was set.
func flawBlinds(c *Config) {
	if flaw.BlindClock.On() {
		c.Clocks, c.Timing.ClockJump = nil, never
	}
}

// flawForgetsGroups takes the attempts under way out of the counts of groups, if the flaw is on.
func flawForgetsGroups(counts []GroupsCount) {
	for i := range counts {
		if flaw.CrowdedGroup.On() {
			counts[i].UnderWay, counts[i].Retrying = 0, 0
		}
	}
}

// foresight is the flaw fire-before-commit. A leader applies its proposals to a machine of its own and starts the
// attempts that this machine grants, before a majority has the entry.
type foresight struct {
	machine *fsm.Machine    // nil until the Takeover is applied
	started map[uint64]bool // fences of attempts started before their entry's commit
}

// foresights holds the foresight of each proposer: *proposer → *foresight.
var foresights sync.Map

func (p *proposer) foresight() *foresight {
	f, _ := foresights.LoadOrStore(p, &foresight{})
	return f.(*foresight)
}

// commit calls propose. With the flaw on, it starts the entry's grants first.
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

// machine returns the machine from which attempts are read: the one that runs ahead if the flaw is on.
func (f *firing) machine() *fsm.Machine {
	if flaw.FireBeforeCommit.On() {
		return f.lead.proposer.foresight().machine
	}
	return f.shard.machine
}

// fireProposed starts the grants of an entry that is about to be proposed.
func (p *proposer) fireProposed(e *entry) {
	grants, err := p.foresight().proposed(e)
	if err != nil {
		p.shard.cfg.Fatal(err)
	}
	p.lead.firing.add(grants, false)
}

// notFired returns the grants of a committed entry that fireProposed has not started already.
func (p *proposer) notFired(e *entry, grants []task.Grant) []task.Grant {
	if e.takeover {
		if err := p.foresight().begin(p.shard.cfg.ID, p.shard.machine); err != nil {
			p.shard.cfg.Fatal(err)
		}
	}
	return p.foresight().notStarted(grants)
}

// begin copies the machine in its state after the Takeover.
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

// notStarted returns the grants whose attempts were not started before the commit.
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
