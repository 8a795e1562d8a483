package siege

import (
	"context"
	"errors"
	"net/http/httptest"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/client"
)

// Neighbours is a play in which other namespaces storm beside the load, first alone and then while leaders are killed:
//
//	Alone[0]    the load alone
//	Beside      two namespaces storm
//	Alone[1]    the load alone again, once the storm's tasks are gone
//	(killed)    two namespaces storm, and leaders are killed
//
// One of the two has a bounded rate, and the other a bounded number of unfinished tasks.
type Neighbours struct {
	Spell time.Duration // length of each part
	Rate  float64       // schedules_per_second of one namespace
	Most  int64         // max_pending of the other

	Alone  [2]check.Spell
	Beside check.Spell
	Storms []Stormed // of both storms
}

// Stormed has the figures of a storm.
type Stormed struct {
	Took      time.Duration
	Killed    bool    // leaders were killed meanwhile
	PerSecond float64 // tasks accepted in the namespace with a bounded rate
	Unrated   int64   // tasks refused there
	Most      int64   // most unfinished tasks in the other
	Unfit     int64   // tasks refused there
}

const clearLimit = time.Minute

// Play is the play of a Plan.
func (n *Neighbours) Play(ctx context.Context, r *Round) error {
	var err error
	pause := func() error { return r.Pause(ctx, n.Spell) }
	kill := func() error {
		for end := time.Now().Add(n.Spell); time.Now().Before(end); {
			if err := errors.Join(r.Strike(ctx, history.KillLeader, drillDead, 0), r.Pause(ctx, drillCalm)); err != nil {
				return err
			}
		}
		return nil
	}
	if n.Alone[0], err = r.spell(pause); err != nil {
		return err
	}
	if n.Beside, err = r.spell(func() error { return n.storm(ctx, r, false, pause) }); err != nil {
		return err
	}
	if n.Alone[1], err = r.spell(pause); err != nil {
		return err
	}
	return n.storm(ctx, r, true, kill)
}

// spell returns the part of the history in which do ran, as the load saw it.
func (r *Round) spell(do func() error) (check.Spell, error) {
	from := r.rec.Now()
	err := do()
	to := r.rec.Now()
	return check.SpellOf(r.rec.History(), from, to), err
}

// storm storms while meanwhile runs, and then removes the storm's tasks.
func (n *Neighbours) storm(ctx context.Context, r *Round, killed bool, meanwhile func() error) error {
	silent := httptest.NewServer(workload.Silent())
	defer silent.Close()
	rated := &workload.Storm{Namespace: "storm-rated", Quotas: client.Quotas{SchedulesPerSecond: n.Rate}}
	full := &workload.Storm{Namespace: "storm-full", Quotas: client.Quotas{MaxPending: n.Most}}
	storming, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	for _, s := range []*workload.Storm{rated, full} {
		s.Target, s.Nodes = silent.URL, r.targets("")
		if err := s.Open(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	go func() { ended <- rated.Run(storming) }()
	go func() { ended <- full.Run(storming) }()
	err := meanwhile()
	took, accepted := time.Since(began), rated.Accepted.Load()
	stop()
	err = errors.Join(err, <-ended, <-ended)
	n.Storms = append(n.Storms, Stormed{
		Took: took, Killed: killed, PerSecond: float64(accepted) / took.Seconds(), Unrated: rated.Refused.Load(),
		Most: full.Most.Load(), Unfit: full.Refused.Load(),
	})
	clearing, cancel := context.WithTimeout(ctx, clearLimit)
	defer cancel()
	return errors.Join(err, rated.Clear(clearing), full.Clear(clearing))
}
