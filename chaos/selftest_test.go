package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/verdict"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// TestSoundFake checks that load, receiver, record and checks together find nothing wrong with a fake service that is
// sound, at any pace.
func TestSoundFake(t *testing.T) {
	t.Parallel()
	for run := range runsOfFake {
		synctest.Test(t, func(t *testing.T) {
			if v := playFake(t, sound, run); !v.OK() {
				t.Error(v)
			}
		})
	}
}

// TestHarnessFindsBugs checks that they find each bug of the fake service as a breach of at least the invariant that the
// table names.
func TestHarnessFindsBugs(t *testing.T) {
	t.Parallel()
	tests := map[bug]string{
		losesTasks: "1", firesEarly: "2", forgetsStop: "3", firesTwice: "5", changesID: "4", altersBody: "4",
		repeatsFence: "7", readsOld: "8", revives: "9", differs: "11", neverRetries: "13", liesAbout503: "14",
		leasesTwice: "12", leasesEarly: "2", forgetsAcks: "12", acceptsEnded: "12", forgetsLeases: "13", refusesAcks: "12",
		forgetsTouch: "2", goesOn: "3", leasesLong: "12",
		crowdsGroups: "16", mixesGroups: "16", losesGroups: "16", dropsFollowUps: "18",
		doublesInstants: "10", skipsInstants: "10", countsPassed: "10", runsInPauses: "10", runsPastCount: "10",
	}
	for b, invariant := range tests {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			var v *verdict.Verdict
			for run := range runsOfFake {
				synctest.Test(t, func(t *testing.T) { v = playFake(t, b, run) })
				if broken(v, invariant) {
					return
				}
			}
			t.Errorf("invariant %s is not found broken\n%s", invariant, v)
		})
	}
}

// runsOfFake is enough runs to find any of the bugs. Most are found in the first one. Some need a longer one, in which
// more occurrences of schedules begin.
const runsOfFake = 4

// paceOf returns how many times slower than the first one a run is.
func paceOf(run int) int { return 1 + 3*run }

func broken(v *verdict.Verdict, invariant string) bool {
	return slices.ContainsFunc(v.Findings, func(f check.Finding) bool { return f.Invariant == invariant && f.Broken() })
}

// patience is the time for remaining tasks to come to rest after the load ends. A fake with a bug never completes some
// of them, and a sound one completes all.
func patience(b bug) time.Duration {
	if b == sound {
		return time.Minute
	}
	return 6 * time.Second
}

// playFake plays a fake for one round, in a bubble. All times are stretched by the pace of the run, whose number is the
// seed.
func playFake(t *testing.T, b bug, run int) *verdict.Verdict {
	t.Helper()
	seed, stretch := uint64(run), time.Duration(paceOf(run))
	network, rec := memnet.New(), history.NewRecorder(nil)
	into, away := listen(t, network), listen(t, network)
	receiver := workload.Serve(rec, into)
	attempts := &http.Transport{DialContext: dial(network, into)}
	service := newFake(b, seed, &http.Client{Transport: attempts})
	server := &http.Server{Handler: service}
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(away) }()
	port := away.Addr().(*net.TCPAddr).Port
	load, err := workload.New(workload.Config{
		Nodes: []workload.Node{
			{Name: "node-1", URL: fmt.Sprintf("http://127.0.0.1:%d", port)},
			{Name: "node-2", URL: fmt.Sprintf("http://localhost:%d", port)},
		},
		Target: receiver.URL, Recorder: rec, Seed: seed, Tasks: 150, PerSecond: 200 / paceOf(run),
		MaxDelay: stretch * 800 * time.Millisecond, RetryFor: time.Second, Lease: stretch * 800 * time.Millisecond,
		Groups: 2, Dial: dial(network, away),
	})
	assert.NoError(t, err)
	play(t, load, stretch*patience(b))
	service.ended.Store(true)
	err = errors.Join(server.Close(), receiver.Close())
	attempts.CloseIdleConnections()
	<-time.After(time.Minute) // ends held answers and timers
	if ended := <-serving; err != nil || !errors.Is(ended, http.ErrServerClosed) {
		t.Error(err, ended)
	}
	return verdict.Of(string(b), rec.History(), check.DefaultLimits())
}

func listen(t *testing.T, network *memnet.Network) net.Listener {
	t.Helper()
	l, err := network.ListenTCP("127.0.0.1:0")
	assert.NoError(t, err)
	return l
}

// dial returns a function that connects to a listener, whatever address it is given.
func dial(network *memnet.Network, l net.Listener) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, l.Addr().String()) }
}

// play plays a load to its end, waits until its tasks have come to rest, for the given time at most, and reads them.
func play(t *testing.T, load *workload.Load, patience time.Duration) {
	t.Helper()
	ctx := t.Context()
	assert.NoError(t, load.Order(ctx))
	consuming, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { load.Consume(consuming) })
	ended, repeated := make(chan struct{}), make(chan error, 1)
	go func() { repeated <- load.Repeat(ctx, ended) }()
	load.Run(ctx, nil)
	close(ended)
	err := <-repeated
	drain, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	load.Drain(drain, time.Minute)
	if err = errors.Join(err, load.ReadAll(ctx, 1000), load.CountSchedules(ctx)); err != nil {
		t.Error(err)
	}
	stop()
	beside.Wait()
}
