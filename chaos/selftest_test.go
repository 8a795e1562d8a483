package chaos_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/verdict"
	"github.com/belfryhq/belfry/chaos/workload"
)

// TestSoundFake checks that load, receiver, record and checks together find nothing wrong with a fake service that is
// sound, at any pace.
func TestSoundFake(t *testing.T) {
	for run := range runsOfFake {
		v, err := playFake(t.Context(), sound, paceOf(run))
		if err != nil {
			t.Fatal(err)
		}
		if !v.OK() {
			t.Fatal(v)
		}
	}
}

// TestHarnessFindsBugs checks that they find each bug of the fake service as a breach of at least the invariant that the
// table names.
func TestHarnessFindsBugs(t *testing.T) {
	tests := map[bug]string{
		losesTasks: "1", firesEarly: "2", forgetsStop: "3", firesTwice: "5", changesID: "4", altersBody: "4",
		repeatsFence: "7", readsOld: "8", revives: "9", differs: "11", neverRetries: "13", liesAbout503: "14",
		leasesTwice: "12", leasesEarly: "2", forgetsAcks: "12", acceptsEnded: "12", forgetsLeases: "13", refusesAcks: "12",
		forgetsTouch: "2", goesOn: "3", leasesLong: "12",
		crowdsGroups: "16", mixesGroups: "16", losesGroups: "16",
		doublesInstants: "10", skipsInstants: "10", countsPassed: "10", runsInPauses: "10", runsPastCount: "10",
	}
	var runs sync.WaitGroup // several at once, because runs mostly wait
	defer runs.Wait()
	room := make(chan struct{}, 6)
	for b, invariant := range tests {
		room <- struct{}{}
		runs.Go(func() {
			defer func() { <-room }()
			v, err := playUntilBroken(t.Context(), b, invariant)
			switch {
			case err != nil:
				t.Errorf("%s: %v", b, err)
			case !broken(v, invariant):
				t.Errorf("%s: invariant %s is not found broken\n%s", b, invariant, v)
			}
		})
	}
}

// runsOfFake is enough runs to find any of the bugs. The first run finds the bug on most machines. A busy machine may
// need a slower one, because tasks are due there before they are cancelled or touched.
const runsOfFake = 3

// paceOf returns how many times slower than the first one a run is.
func paceOf(run int) int { return 1 + 3*run }

// playUntilBroken plays a fake until the invariant is found broken.
func playUntilBroken(ctx context.Context, b bug, invariant string) (v *verdict.Verdict, err error) {
	for run := range runsOfFake {
		v, err = playFake(ctx, b, paceOf(run))
		if err != nil || broken(v, invariant) {
			break
		}
	}
	return v, err
}

func broken(v *verdict.Verdict, invariant string) bool {
	return slices.ContainsFunc(v.Findings, func(f check.Finding) bool { return f.Invariant == invariant && f.Broken() })
}

// patience is the time for remaining tasks to come to rest after the load ends. A fake with a bug never completes some
// of them, so that a short time is enough. A sound fake completes all, though on a busy machine leases end before their
// acknowledgements arrive.
func patience(b bug) time.Duration {
	if b == sound {
		return 2 * time.Minute
	}
	return 6 * time.Second
}

// playFake plays a fake for one round. The pace is the factor by which all times are stretched.
func playFake(ctx context.Context, b bug, pace int) (*verdict.Verdict, error) {
	stretch := time.Duration(pace)
	rec := history.NewRecorder(nil)
	receiver, err := workload.Listen(ctx, rec, "127.0.0.1")
	if err != nil {
		return nil, err
	}
	service := newFake(b)
	server := httptest.NewServer(service)
	defer server.Close()
	defer service.ended.Store(true)
	other := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	load, err := workload.New(workload.Config{
		Nodes:  []workload.Node{{Name: "node-1", URL: server.URL}, {Name: "node-2", URL: other}},
		Target: receiver.URL, Recorder: rec, Seed: 1, Tasks: 150, PerSecond: 200 / pace,
		MaxDelay: stretch * 800 * time.Millisecond, RetryFor: time.Second, Lease: stretch * 800 * time.Millisecond,
		Groups: 2,
	})
	if err == nil {
		err = load.Order(ctx)
	}
	if err != nil {
		return nil, err
	}
	consuming, stop := context.WithCancel(ctx)
	var consumers sync.WaitGroup
	consumers.Go(func() { load.Consume(consuming) })
	defer consumers.Wait()
	defer stop()
	ended, repeated := make(chan struct{}), make(chan error, 1)
	go func() { repeated <- load.Repeat(ctx, ended) }()
	load.Run(ctx, nil)
	close(ended)
	if err := <-repeated; err != nil {
		return nil, err
	}
	drain, cancel := context.WithTimeout(ctx, stretch*patience(b))
	defer cancel()
	load.Drain(drain, time.Minute)
	err = errors.Join(load.ReadAll(ctx, 1000), load.CountSchedules(ctx))
	return verdict.Of(string(b), rec.History(), check.DefaultLimits()), errors.Join(err, receiver.Close())
}
