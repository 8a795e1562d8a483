package workload

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// newLoad returns a load on a service of one node in the memory of a bubble.
func newLoad(t *testing.T, handler http.HandlerFunc, cfg Config) (*Load, *history.Recorder) {
	t.Helper()
	l, rec, _ := newLoadOn(t, handler, cfg)
	return l, rec
}

// newLoadOn also returns the listener of the service.
func newLoadOn(t *testing.T, handler http.HandlerFunc, cfg Config) (*Load, *history.Recorder, net.Listener) {
	t.Helper()
	network := memnet.New()
	listener, packets, err := network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	server := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_, _, _ = server.Close(), packets.Close(), <-served // a test may have closed the listener
	})
	cfg.Recorder = history.NewRecorder(nil)
	cfg.Nodes = []Node{{Name: "node-1", URL: "http://" + listener.Addr().String()}}
	cfg.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) { return network.Dial(ctx, addr) }
	cfg.Target = "http://127.0.0.1:1/hook"
	l, err := New(cfg)
	assert.NoError(t, err)
	return l, cfg.Recorder, listener
}

// silent never answers. It reads the body, since otherwise the server would not notice that the caller is gone.
func silent(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestOnlyWhatIsCertainIsFailed(t *testing.T) {
	problem := func(status int, committed string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"committed":"` + committed + `","state":"firing","attempts":2}`))
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   history.Outcome
		final  bool
	}{
		{"done", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"revision":4}`)) }, history.OK, true},
		{"refused", problem(409, ""), history.Failed, true},
		{"too many", problem(429, ""), history.Failed, false},
		{"not committed", problem(503, "no"), history.Failed, false},
		{"503 that says nothing", problem(503, ""), history.Unknown, false},
		{"unknown", problem(504, "unknown"), history.Unknown, false},
		{"broken", problem(500, ""), history.Unknown, false},
		{"torn", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, history.Unknown, false},
		{"silent", silent, history.Unknown, false},
		{"garbled", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{`)) }, history.Unknown, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, rec := newLoad(t, tt.answer, Config{})
				op := l.player.Schedule("a", load.Task{Delay: time.Second})
				outcome, answer := l.caller.call(t.Context(), 0, 300*time.Millisecond, op)
				c := rec.History().Calls[0]
				if outcome != tt.want || c.Outcome != tt.want || load.Final(outcome, answer) != tt.final {
					t.Errorf("%s %+v, recorded %s", outcome, answer, c.Outcome)
				}
				if c.End < c.Start || c.Node != "node-1" || c.Ask.Body == 0 {
					t.Errorf("%+v", c)
				}
			})
		})
	}
	t.Run("never sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, _, listener := newLoadOn(t, nil, Config{})
			assert.NoError(t, listener.Close())
			op := l.player.Cancel("a")
			outcome, answer := l.caller.call(t.Context(), 0, time.Second, op)
			if outcome != history.Failed || load.Final(outcome, answer) {
				t.Errorf("%s %+v", outcome, answer)
			}
		})
	})
}

// TestHiddenSecondSending checks the outcome of a call that net/http sent twice. net/http sends a request with a key
// again when a kept connection breaks. The client's error is then about the second sending, and the first may have
// happened.
func TestHiddenSecondSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		var end func()
		l, rec, listener := newLoadOn(t, func(w http.ResponseWriter, _ *http.Request) {
			if first {
				first = false // the connection is kept
				_, _ = w.Write([]byte(`{"revision":4}`))
				return
			}
			end() // no server takes the second sending
			panic(http.ErrAbortHandler)
		}, Config{})
		end = func() { _ = listener.Close() }
		for range 2 {
			op := l.player.Schedule("a", load.Task{Delay: time.Second})
			l.caller.call(t.Context(), 0, 5*time.Second, op)
		}
		c := rec.History().Calls[1]
		assert.Equal(t, c.Outcome, history.Unknown, "%+v", c)
	})
}

// TestRepeatsShareTheKey checks that all tries of an operation carry one key and one number, and that the first final
// answer ends them.
func TestRepeatsShareTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := make(chan string, 10)
		l, rec := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
			keys <- r.Header.Get("Idempotency-Key")
			if len(keys) < 3 {
				w.WriteHeader(http.StatusGatewayTimeout)
				return
			}
			_, _ = w.Write([]byte(`{"revision":4}`))
		}, Config{})
		op := l.player.Schedule("a", load.Task{Delay: time.Second})
		outcome, answer := l.player.Perform(t.Context(), rand.New(rand.NewPCG(1, 6)), op)
		if outcome != history.OK || answer.Revision != 4 {
			t.Fatalf("%s %+v", outcome, answer)
		}
		first := <-keys
		for range len(keys) {
			if key := <-keys; key != first {
				t.Errorf("keys %s and %s", first, key)
			}
		}
		for _, c := range rec.History().Calls {
			assert.Equal(t, c.Op, op.What.Op, "%+v is a try of another operation", c)
		}
	})
}

// TestSeedDecides checks that the same seed asks for the same operations.
func TestSeedDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := func(seed uint64) string {
			var kinds []string
			l, rec := newLoad(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, Config{Seed: seed, MaxDelay: 40 * time.Millisecond})
			for i := range 40 {
				l.player.Play(t.Context(), i)
			}
			made := map[int64]bool{} // the number of tries depends on the machine
			for _, c := range rec.History().Calls {
				first := !made[c.Op]
				made[c.Op] = true
				if first && !strings.Contains(c.ID, "hot") { // calls of hot ids are made at once, in any order
					kinds = append(kinds, c.ID+" "+string(c.Kind)+" "+c.Ask.Delay.String())
				}
			}
			return strings.Join(kinds, "\n")
		}
		one, again, other := plan(1), plan(1), plan(2)
		if one != again {
			t.Errorf("the same seed made\n%s\nand\n%s", one, again)
		}
		if one == other {
			t.Error("two seeds make the same")
		}
	})
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rec := newLoad(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
			Config{Tasks: 12, PerSecond: 1000, Hot: -1, MaxDelay: time.Millisecond})
		l.Run(t.Context(), nil)
		if n := len(worthReading(rec.History(), 12)); n < 12 {
			t.Errorf("%d ids were called", n)
		}
		stop := make(chan struct{})
		close(stop)
		endless, _ := newLoad(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, Config{})
		endless.Run(t.Context(), stop)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		endless.Run(ctx, nil)
	})
}

func TestWorthReading(t *testing.T) {
	h := &history.History{}
	call := func(id string, kind history.Kind, outcome history.Outcome, a history.Answer) {
		h.Calls = append(h.Calls, history.Call{ID: id, Kind: kind, Outcome: outcome, Answer: a})
	}
	for _, id := range []string{
		"plain", "never came", "twice", "changed", "pulled", "not acked", "failed", "cancelled", "stopped", "came too",
	} {
		call(id, history.Schedule, history.OK, history.Answer{})
	}
	call("plain", history.Get, history.OK, history.Answer{})
	call("unknown", history.Schedule, history.Unknown, history.Answer{})
	call("changed", history.Patch, history.OK, history.Answer{})
	call("pulled", history.Ack, history.OK, history.Answer{})
	call("not acked", history.Ack, history.Failed, history.Answer{Status: 409})
	for _, id := range []string{"cancelled", "came too"} {
		call(id, history.Cancel, history.OK, history.Answer{Cancel: "cancelled"})
	}
	call("stopped", history.Cancel, history.OK, history.Answer{Cancel: "stopped"})
	for _, id := range []string{"plain", "twice", "twice", "changed", "came too", "unknown"} {
		h.Arrivals = append(h.Arrivals, history.Arrival{ID: id, Answer: 200})
	}
	for _, id := range []string{"pulled", "not acked"} {
		h.Arrivals = append(h.Arrivals, history.Arrival{ID: id, Pulled: true})
	}
	h.Arrivals = append(h.Arrivals, history.Arrival{ID: "failed", Answer: 500}, history.Arrival{ID: "stranger", Answer: 200})
	want := "never came, twice, changed, not acked, failed, stopped, came too, unknown, stranger"
	assert.Equal(t, strings.Join(worthReading(h, 0), ", "), want)
	want = "plain, never came, twice, changed, pulled, not acked, failed, stopped, came too, unknown, stranger"
	assert.Equal(t, strings.Join(worthReading(h, 2), ", "), want)
}

func TestReceiver(t *testing.T) {
	rec := history.NewRecorder(nil)
	r, err := Listen(t.Context(), rec, "127.0.0.1")
	assert.NoError(t, err)
	for attempt, want := range map[string]int{"1": 500, "2": 200} {
		body := strings.NewReader(string(load.Payload{Op: 7, Fail: 1}.Encode()))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, body)
		assert.NoError(t, err)
		req.Header.Set("Belfry-Attempt", attempt)
		resp, err := http.DefaultClient.Do(req)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != want {
			t.Errorf("attempt %s: %v, %v", attempt, resp.Status, err)
		}
	}
	assert.Equal(t, r.Close(), nil)
	for _, a := range rec.History().Arrivals {
		if a.Wrote != 7 || a.Body == 0 || a.At == 0 || a.Delivered() != (a.Attempt == 2) {
			t.Errorf("%+v", a)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	assert.Error(t, err, "a load without nodes was made")
}
