package netlab

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// far is the other end of a line. It notes the number and the time of each frame.
type far struct {
	began time.Time

	mu    sync.Mutex
	came  []int
	after []time.Duration
	err   error
}

func (f *far) Write(frame []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	f.came = append(f.came, int(binary.BigEndian.Uint32(frame)))
	f.after = append(f.after, time.Since(f.began))
	return len(frame), nil
}

// got returns the numbers of the frames that have come, and the time of each since the beginning.
func (f *far) got() (came []int, after []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.came), slices.Clone(f.after)
}

func testLine(seed uint64) (*line, *far) {
	f := &far{began: time.Now()}
	return newLine(f, rand.New(rand.NewPCG(seed, 0))), f
}

// send sends n numbered frames, with a pause after each. It reuses one buffer, as the fabric does.
func send(l *line, n int, pause time.Duration) {
	frame := make([]byte, 100)
	for i := range n {
		binary.BigEndian.PutUint32(frame, uint32(i))
		l.forward(frame)
		if pause > 0 {
			<-time.After(pause)
		}
	}
}

func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestSoundLinePassesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := testLine(1)
		send(l, 100, 0)
		if came, after := f.got(); !slices.Equal(came, count(100)) || slices.Max(after) > 0 {
			t.Errorf("%v after %v", came, after)
		}
		assert.Equal(t, l.counts(), tally{Forwarded: 100})
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := testLine(1)
		l.impose(Quality{Delay: 50 * time.Millisecond})
		send(l, 10, 7*time.Millisecond)
		<-time.After(time.Second)
		came, afters := f.got()
		if !slices.Equal(came, count(10)) {
			t.Fatal(came)
		}
		for i, after := range afters {
			assert.Equal(t, after, time.Duration(i)*7*time.Millisecond+50*time.Millisecond, "frame %d came after", i)
		}
	})
}

// No frame overtakes another, whatever the jitter and however the quality changes meanwhile.
func TestOrderIsKept(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			l, f := testLine(seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			const frames = 2000
			go func() {
				for range 50 {
					lift := l.impose(Quality{
						Delay:  time.Duration(rng.IntN(20)) * time.Millisecond,
						Jitter: time.Duration(rng.IntN(3)*rng.IntN(30)) * time.Millisecond,
					})
					<-time.After(20 * time.Millisecond)
					lift()
				}
			}()
			send(l, frames, time.Millisecond)
			<-time.After(time.Second)
			came, after := f.got()
			if !slices.Equal(came, count(frames)) {
				t.Fatalf("seed %d: %v", seed, came)
			}
			if last := after[frames-1]; last != (frames-1)*time.Millisecond {
				t.Errorf("seed %d: over the sound line the last one came after %v", seed, last)
			}
		})
	}
}

func TestShares(t *testing.T) {
	const frames = 10000
	tests := map[string]struct {
		quality Quality
		count   func(tally) int64
		share   float64
		come    int
	}{
		"loss":      {Quality{Loss: 0.1}, func(s tally) int64 { return s.Lost }, 0.1, -1},
		"duplicate": {Quality{Duplicate: 0.3}, func(s tally) int64 { return s.Duplicated }, 0.3, +1},
		"reorder":   {Quality{Reorder: 0.2}, func(s tally) int64 { return s.Reordered }, 0.2, 0},
		"all lost":  {Quality{Loss: 1}, func(s tally) int64 { return s.Lost }, 1, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, f := testLine(7)
				l.impose(test.quality)
				send(l, frames, 0)
				<-time.After(time.Second)
				came, _ := f.got()
				stats := l.counts()
				struck := test.count(stats)
				if off := float64(struck)/frames - test.share; off < -0.02 || off > 0.02 {
					t.Errorf("the quality struck %d of %d frames", struck, frames)
				}
				if want := frames + test.come*int(struck); len(came) != want || stats.Forwarded != int64(want) {
					t.Errorf("%d frames came, %+v", len(came), stats)
				}
				sorted := slices.Compact(slices.Sorted(slices.Values(came)))
				if test.come >= 0 && !slices.Equal(sorted, count(frames)) {
					t.Errorf("only %d different frames came", len(sorted))
				}
				assert.Equal(t, slices.IsSorted(came), test.quality.Reorder == 0, "frames came in order")
			})
		})
	}
}

func TestSeedRepeats(t *testing.T) {
	play := func(seed uint64) (came []int) {
		synctest.Test(t, func(*testing.T) {
			l, f := testLine(seed)
			l.impose(Quality{Jitter: time.Millisecond, Loss: 0.2, Duplicate: 0.2, Reorder: 0.2})
			send(l, 500, time.Millisecond)
			<-time.After(time.Second)
			came, _ = f.got()
		})
		return came
	}
	first := play(3)
	assert.EqualSlices(t, first, play(3), "the same seed makes different runs")
	if slices.Equal(first, play(4)) {
		t.Error("two seeds make the same run")
	}
}

func TestCutLosesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := testLine(1)
		l.impose(Quality{Delay: time.Second})
		send(l, 10, 0)
		l.impose(Quality{Cut: true})
		send(l, 10, 0)
		<-time.After(time.Minute)
		if came, _ := f.got(); len(came) > 0 {
			t.Errorf("frames %v came", came)
		}
		l.heal()
		send(l, 2, 0)
		if came, _ := f.got(); !slices.Equal(came, count(2)) {
			t.Errorf("frames %v came", came)
		}
		assert.Equal(t, l.counts(), tally{Forwarded: 2, Lost: 20})
	})
}

// Imposed qualities add up, and each lift removes its own.
func TestImpairmentsAddUp(t *testing.T) {
	l, _ := testLine(1)
	slow := l.impose(Quality{Delay: time.Second, Loss: 0.5})
	cut := l.impose(Quality{Cut: true})
	lossy := l.impose(Quality{Delay: time.Second, Jitter: time.Millisecond, Loss: 0.5, Reorder: 0.1})
	all := Quality{Cut: true, Delay: 2 * time.Second, Jitter: time.Millisecond, Loss: 0.75, Reorder: 0.1}
	if !same(l.now(), all) {
		t.Errorf("%+v", l.now())
	}
	cut()
	cut()
	if all.Cut = false; !same(l.now(), all) {
		t.Errorf("%+v", l.now())
	}
	slow()
	if !same(l.now(), Quality{Delay: time.Second, Jitter: time.Millisecond, Loss: 0.5, Reorder: 0.1}) {
		t.Errorf("%+v", l.now())
	}
	l.heal()
	lossy()
	assert.Equal(t, l.now(), Quality{})
}

// same compares two qualities by their printed digits.
func same(a, b Quality) bool {
	cut := a.Cut == b.Cut
	a.Cut, b.Cut = false, false
	return cut && a.String() == b.String()
}

func TestOutsideIsCutAsOftenAsLifted(t *testing.T) {
	var to, from bool
	c := &cable{set: func(cutTo, cutFrom bool) error { to, from = cutTo, cutFrom; return nil }}
	expect := func(when string, wantTo, wantFrom bool) {
		t.Helper()
		if to != wantTo || from != wantFrom {
			t.Errorf("%s: %t, %t", when, to, from)
		}
	}
	do := func(lift func() error) {
		t.Helper()
		assert.Equal(t, lift(), nil)
	}
	both, _ := c.cut(true, true)
	one, _ := c.cut(false, true)
	expect("cut twice", true, true)
	do(both)
	do(both)
	expect("lifted once", false, true)
	do(one)
	expect("lifted twice", false, false)
	late, _ := c.cut(true, false)
	do(c.heal)
	expect("healed", false, false)
	again, _ := c.cut(true, false)
	do(late)
	expect("lifted too late", true, false)
	do(again)
	expect("sound", false, false)
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := testLine(1)
		l.impose(Quality{Delay: time.Second})
		frame := make([]byte, 1<<16)
		const frames = 2 * maxQueued / (1 << 16)
		for range frames {
			l.forward(frame)
		}
		<-time.After(time.Minute)
		assert.Equal(t, l.counts(), tally{Forwarded: frames / 2, Lost: frames / 2})
		send(l, 1, 0)
		<-time.After(time.Minute)
		stats := l.counts()
		assert.Equal(t, stats.Forwarded, frames/2+1, "the queue has no room again: %+v", stats)
	})
}

func TestRefusedFrameIsLost(t *testing.T) {
	l, f := testLine(1)
	f.err = errors.New("down")
	send(l, 3, 0)
	assert.Equal(t, l.counts(), tally{Lost: 3})
}

func TestQualityInWords(t *testing.T) {
	for want, q := range map[string]Quality{
		"sound": {},
		"cut":   {Cut: true, Loss: 1},
		"delay 20ms, jitter 5ms, loss 12.5%": {
			Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.125,
		},
		"duplicates 1%, reordered 30%": {Duplicate: 0.01, Reorder: 0.3},
	} {
		assert.Equal(t, q.String(), want)
	}
}
