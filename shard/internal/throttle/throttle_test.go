package throttle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// end ends n attempts with the same outcome.
func end(t *Throttle, cfg Config, now time.Time, n int, e Ending) {
	for range n {
		t.End(cfg, now, e)
	}
}

func TestWindow(t *testing.T) {
	good := Ending{Delivered: true, Took: time.Millisecond, Full: true}
	idle := Ending{Delivered: true, Took: time.Millisecond}
	bad := Ending{Took: time.Millisecond}
	late := Ending{Took: time.Second, TimedOut: true}
	slow := Ending{Delivered: true, Took: time.Second, Full: true}
	for _, test := range []struct {
		name string
		do   func(*Throttle, Config)
		want int
	}{
		{"at first", func(*Throttle, Config) {}, 16},
		{"doubles in a round", func(th *Throttle, cfg Config) { end(th, cfg, begin, 16, good) }, 32},
		{"grows only while it is used up", func(th *Throttle, cfg Config) { end(th, cfg, begin, 100, idle) }, 16},
		{"has an end", func(th *Throttle, cfg Config) { end(th, cfg, begin, 10000, good) }, 512},
		{"a failure takes one", func(th *Throttle, cfg Config) {
			end(th, cfg, begin, 16, good)
			end(th, cfg, begin, 3, bad)
		}, 29},
		{"failures leave the first one", func(th *Throttle, cfg Config) { end(th, cfg, begin, 30, bad) }, 16},
		{"a timeout takes two", func(th *Throttle, cfg Config) { end(th, cfg, begin, 3, late) }, 10},
		{"never under one", func(th *Throttle, cfg Config) { end(th, cfg, begin, 30, late) }, 1},
		{"grows slowly after a failure", func(th *Throttle, cfg Config) {
			end(th, cfg, begin, 1, bad)
			end(th, cfg, begin, 25, good)
		}, 19},
		{"shrinks while answers are slow", func(th *Throttle, cfg Config) {
			end(th, cfg, begin, 16, good)
			end(th, cfg, begin, 100, slow)
		}, 27},
		{"grows while a broker confirms late", func(th *Throttle, cfg Config) {
			end(th, cfg, begin, 16, good)
			end(th, cfg, begin, 100, Ending{Delivered: true, Took: time.Second, Full: true, Broker: true})
		}, 132},
		{"stays while a few answers are slow", func(th *Throttle, cfg Config) {
			for range 100 {
				end(th, cfg, begin, 1, idle)
				end(th, cfg, begin, 3, slow)
			}
		}, 316},
		{"keeps a quarter of the first one while they are slow", func(th *Throttle, cfg Config) {
			end(th, cfg, begin, 1, good)
			end(th, cfg, begin, 1000, slow)
		}, 4},
		{"one failure in ten of an idle window is no reason", func(th *Throttle, cfg Config) {
			for range 500 {
				end(th, cfg, begin, 1, bad)
				end(th, cfg, begin, 9, idle)
			}
		}, 16},
		{"slow answers give a silent receiver its quarter back", func(th *Throttle, cfg Config) {
			end(th, cfg, begin, 1, good)
			end(th, cfg, begin, 30, late)
			end(th, cfg, begin, 100, slow)
		}, 4},
		{"one failure in twenty is no reason", func(th *Throttle, cfg Config) {
			for range 500 {
				end(th, cfg, begin, 19, good)
				end(th, cfg, begin, 1, bad)
			}
		}, 511},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := Default()
			th := New(cfg)
			test.do(&th, cfg)
			if got := th.Window(); got != test.want {
				t.Errorf("window %d, want %d", got, test.want)
			}
			if room, _ := th.Room(begin, 5); room != max(th.Window()-5, 0) {
				t.Errorf("room %d beside 5 in a window of %d", room, th.Window())
			}
		})
	}
}

// TestReceiversPace simulates twelve shards that send to one receiver of fifty parallel tasks, 5 ms each. Further
// attempts wait there. The window keeps them few, and is never so small that the receiver is idle.
func TestReceiversPace(t *testing.T) {
	const shards, atOnce, work = 12, 50, 5 * time.Millisecond
	cfg, now := Default(), begin
	th := New(cfg)
	th.End(cfg, now, Ending{Delivered: true, Took: work, Full: true})
	for now.Before(begin.Add(10 * time.Minute)) {
		sent := shards * th.Window()
		th.End(cfg, now, Ending{Delivered: true, Took: max(work, work*time.Duration(sent)/atOnce), Full: true})
		now = now.Add(max(work*shards/atOnce, work/time.Duration(th.Window())))
		if now.Sub(begin) > 10*time.Second && (th.Window() < 4 || th.Window() > 30) {
			t.Fatalf("a window of %d after %v", th.Window(), now.Sub(begin))
		}
	}
}

// TestMixture simulates a receiver without a limit that fails two attempts in five, and that needs up to half a second
// for one in five. Sixty tasks a second come beside a backlog of two hundred, as after the death of a leader. The
// healthy tasks do not wait behind the others.
func TestMixture(t *testing.T) {
	type attempt struct {
		ends time.Time
		Ending
	}
	cfg, rng := Default(), rand.New(rand.NewPCG(1, 2))
	th, due, begun := New(cfg), make([]time.Time, 200), 0
	for i := range due {
		due[i] = begin
	}
	for i := range 3600 {
		due = append(due, begin.Add(time.Duration(i)*time.Second/60))
	}
	slices.SortFunc(due, time.Time.Compare)
	var running []attempt
	for now := begin; begun < len(due); now = now.Add(time.Millisecond) {
		running = slices.DeleteFunc(running, func(a attempt) bool {
			if a.ends.After(now) {
				return false
			}
			a.Full = !due[begun].After(now)
			th.End(cfg, now, a.Ending)
			return true
		})
		room, _ := th.Room(now, len(running))
		for ; room > 0 && begun < len(due) && !due[begun].After(now); room-- {
			if late := now.Sub(due[begun]); late > time.Second {
				t.Fatalf("task %d is %v late, with a window of %d", begun, late, th.Window())
			}
			begun++
			took := 2 * time.Millisecond
			if rng.IntN(5) == 0 {
				took = time.Duration(rng.IntN(500)) * time.Millisecond
			}
			running = append(running, attempt{now.Add(took), Ending{Delivered: rng.IntN(5) > 1, Took: took}})
		}
	}
}

func TestBreaker(t *testing.T) {
	cfg, now := Default(), begin
	th := New(cfg)
	end(&th, cfg, now, cfg.Trip-1, Ending{})
	if th.Open() {
		t.Fatal("open before the run is long enough")
	}
	end(&th, cfg, now, 1, Ending{Delivered: true})
	end(&th, cfg, now, cfg.Trip-1, Ending{})
	if th.Open() {
		t.Fatal("a success did not end the run")
	}
	end(&th, cfg, now, 100, Ending{}) // many attempts were under way when the breaker opened, and none is a probe
	pauses := []time.Duration{250, 250, 250, 500, 500, 500, 1000, 1000, 1000, 2000, 2000, 2000, 4000, 4000, 4000, 8000, 8000, 8000, 10000, 10000}
	for _, pause := range pauses {
		until := now.Add(pause * time.Millisecond)
		if room, at := th.Room(until.Add(-1), 0); room != 0 || !at.Equal(until) {
			t.Fatalf("room %d during the pause of %v, until %v", room, pause, at)
		}
		now = until
		if room, _ := th.Room(now, 0); room != 1 {
			t.Fatalf("room for %d probes", room)
		}
		if room, _ := th.Room(now, 1); room != 0 {
			t.Fatalf("a second probe")
		}
		end(&th, cfg, now, 1, Ending{})
	}
	end(&th, cfg, now, 1, Ending{Delivered: true, Full: true})
	if th.Open() {
		t.Error("a success did not close it")
	}
	if room, _ := th.Room(now, 0); room != 2 {
		t.Errorf("room %d after it closed", room)
	}
}

// TestRetryAfter checks that a receiver that asks for a pause gets it, within a limit, and fewer attempts afterwards.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct{ wish, want time.Duration }{
		{time.Second, time.Second}, {24 * time.Hour, Default().MaxPause},
	} {
		cfg := Default()
		th := New(cfg)
		end(&th, cfg, begin, 4, Ending{RetryAfter: test.wish})
		if room, until := th.Room(begin, 0); room != 0 || until.Sub(begin) != test.want {
			t.Errorf("room %d until %v", room, until.Sub(begin))
		}
		if room, _ := th.Room(begin.Add(test.want), 0); room != 4 {
			t.Errorf("room %d afterwards", room) // (16-1)/2, and three more failures
		}
		if th.Open() {
			t.Error("the breaker opened")
		}
	}
}

// TestBounds checks that the room stays in bounds after any endings, and that a receiver that recovers gets its full
// use again.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, now := Default(), begin
		th := New(cfg)
		for range rapid.IntRange(0, 300).Draw(t, "endings") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond)
			th.End(cfg, now, Ending{
				Delivered: rapid.IntRange(0, 9).Draw(t, "good") == 0, TimedOut: rapid.Bool().Draw(t, "timeout"),
				Took:       time.Duration(rapid.IntRange(0, 60000).Draw(t, "took")) * time.Millisecond,
				RetryAfter: time.Duration(rapid.IntRange(0, 2).Draw(t, "wish")) * time.Hour, Full: true,
			})
			room, until := th.Room(now, 0)
			if room < 0 || room > cfg.Max || until.Sub(now) > cfg.MaxPause || room == 0 && until.IsZero() {
				t.Fatalf("room %d, until %v at %v", room, until, now)
			}
		}
		now = now.Add(cfg.MaxPause)
		for range 20000 {
			th.End(cfg, now, Ending{Delivered: true, Took: time.Millisecond, Full: true})
		}
		if room, _ := th.Room(now, 0); room != cfg.Max {
			t.Fatalf("room %d after it recovered", room)
		}
	})
}
