package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

var errLost = errors.New("no answer")

const trip = 250 * time.Millisecond

// sleep lets time pass in the bubble.
func sleep(d time.Duration) { <-time.After(d) }

var pending = LimitKey{Subject{Namespace: "a"}, MaxPending}

// levels is a cluster in memory whose shards share one level.
type levels struct {
	t *testing.T

	far, trip time.Duration // added to each round trip, and its bound

	mu     sync.Mutex
	mute   bool // all Raises are lost
	limit  int64
	stores []*store
	owner  *Arbiter // nil: lost
	term   uint64
	most   int64
	rounds int
	unsure int // claims
}

// store is a shard: the tasks and slots that it has, and the level of its leader, nil if it has none.
type store struct {
	cluster *levels
	tasks   int64
	slots   int64
	drops   uint64
	level   *Level
}

func (s *store) Used() int64 {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.tasks
}

func (s *store) Drops() uint64 {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.drops
}

func newLevels(t *testing.T, shards int, limit int64) *levels {
	return newFarLevels(t, shards, limit, 0, trip)
}

// newFarLevels returns shards with a longer round trip to the owner.
func newFarLevels(t *testing.T, shards int, limit int64, far, trip time.Duration) *levels {
	c := &levels{t: t, limit: limit, far: far, trip: trip}
	for i := range shards {
		c.stores = append(c.stores, &store{cluster: c, slots: 16})
		c.lead(i)
	}
	c.newOwner()
	return c
}

// lead begins a leadership of a shard, which knows its tasks and no ceiling.
func (c *levels) lead(i int) {
	s := c.stores[i]
	l := NewLevel(LevelConfig{Key: pending, Holder: fmt.Sprint(i), Use: s, Owner: c, Trip: c.trip})
	c.mu.Lock()
	defer c.mu.Unlock()
	s.level = l
}

func (c *levels) newOwner() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term++
	c.owner = NewArbiter(c.term, c, c.trip)
}

func (c *levels) Holders(LimitKey) (all []Holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.stores {
		all = append(all, Holder{ID: fmt.Sprint(i), Weight: s.slots})
	}
	return all
}

func (c *levels) Trim(ctx context.Context, holder string, _ LimitKey, r Round) (int64, error) {
	l, err := c.reach(ctx, holder)
	if err != nil {
		return 0, err
	}
	held, ok := l.Trim(r)
	if !ok {
		return 0, errLost
	}
	return held, nil
}

func (c *levels) Raise(ctx context.Context, holder string, _ LimitKey, r Round, limit, ceiling int64) error {
	l, err := c.reach(ctx, holder)
	c.mu.Lock()
	lost := c.mute
	c.mu.Unlock()
	if err == nil && !lost {
		l.Raise(r, limit, ceiling)
	}
	return err
}

// reach returns a shard's level after the time of a call, or an error once ctx ends if the shard has no leader.
func (c *levels) reach(ctx context.Context, holder string) (*Level, error) {
	sleep(c.far + time.Duration(200+rand.IntN(1000))*time.Microsecond)
	if ctx.Err() != nil {
		return nil, errLost
	}
	var i int
	_, _ = fmt.Sscan(holder, &i)
	c.mu.Lock()
	l := c.stores[i].level
	c.mu.Unlock()
	if l == nil {
		<-ctx.Done()
		return nil, errLost
	}
	return l, nil
}

func (c *levels) Divide(ctx context.Context, ask Ask) (int64, error) {
	sleep(c.far + time.Millisecond)
	c.mu.Lock()
	owner := c.owner
	c.rounds++
	c.mu.Unlock()
	if owner == nil {
		sleep(100 * time.Millisecond)
		return 0, errLost
	}
	return owner.Divide(ctx, ask)
}

func (c *levels) sum() (n int64) {
	for _, s := range c.stores {
		n += s.tasks
	}
	return n
}

// create makes a task at a shard. It returns the refusal, and the tasks that all shards had at that time.
func (c *levels) create(i int) (*Exceeded, int64) {
	c.mu.Lock()
	s, limit := c.stores[i], c.limit
	l := s.level
	c.mu.Unlock()
	if l == nil {
		return nil, 0
	}
	err := l.Claim(c.t.Context(), limit, 1)
	c.mu.Lock()
	had := c.sum()
	if errors.Is(err, ErrUnsure) {
		c.unsure++
	}
	c.mu.Unlock()
	var full *Exceeded
	if err != nil {
		if !errors.As(err, &full) && !errors.Is(err, errLost) && !errors.Is(err, ErrUnsure) {
			c.t.Error(err)
		}
		return full, had
	}
	defer l.Release(1)
	sleep(3 * time.Millisecond) // its entry commits
	c.commit(s, l)
	sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // the task counts twice until the release
	return nil, had
}

func (c *levels) commit(s *store, l *Level) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.level == l { // otherwise the leadership has ended before
		s.tasks++
		c.most = max(c.most, c.sum())
	}
}

// burst makes n tasks, calls of them at a time, at shards that pick chooses. It returns the number of refusals, and the
// fewest tasks that all shards had at one of them.
func (c *levels) burst(n, calls int, pick func() int) (refused int, fewest int64) {
	fewest = 1 << 62
	var mu sync.Mutex
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			for range n / calls {
				full, had := c.create(pick())
				if full == nil {
					continue
				}
				mu.Lock()
				refused++
				fewest = min(fewest, had)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return refused, fewest
}

func (c *levels) drop(i int, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[i].tasks -= min(n, c.stores[i].tasks)
}

// setLimit changes the limit, and begins a new count of the most tasks.
func (c *levels) setLimit(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.most = limit, 0
}

func anyOf(n int) func() int { return func() int { return rand.IntN(n) } }

// TestLevelIsExact checks that shards together fill a limit exactly, whether tasks come to all shards or to one, and
// that no task is refused before.
func TestLevelIsExact(t *testing.T) {
	for _, shards := range []int{1, 3, 5, 16} {
		for _, limit := range []int64{1, 10, 1000, 20_000} {
			for name, pick := range map[string]func() int{"all": anyOf(shards), "one": func() int { return 0 }} {
				t.Run(fmt.Sprintf("%s/%d/%d", name, shards, limit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newLevels(t, shards, limit)
						refused, fewest := c.burst(int(limit)*11/10+50, min(int(limit), 50), pick)
						sleep(time.Second)
						if c.most != limit || refused == 0 {
							t.Errorf("%d tasks at most, %d refused", c.most, refused)
						}
						// Up to 50 calls are under way, whose tasks are not made yet.
						if fewest < limit-50 {
							t.Errorf("refused at %d tasks", fewest)
						}
						if asks := 100 + int(limit)/5; c.rounds > asks {
							t.Errorf("%d requests to the owner", c.rounds)
						}
					})
				})
			}
		}
	}
}

// TestLevelFrees checks that tasks that end at one shard make room at another.
func TestLevelFrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLevels(t, 3, 300)
		c.burst(400, 20, func() int { return 0 })
		c.drop(0, 100)
		sleep(fullFor)
		refused, _ := c.burst(100, 10, func() int { return 2 })
		if refused > 0 || c.stores[2].tasks != 100 {
			t.Errorf("%d refused, %d tasks", refused, c.stores[2].tasks)
		}
		if full, _ := c.create(1); full == nil || full.Used != 300 || full.Limit != 300 || full.RetryAfter <= 0 {
			t.Errorf("%+v", full)
		}
	})
}

// TestLevelChanges checks that a lower limit holds at once, and that a higher one can be filled.
func TestLevelChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLevels(t, 5, 1000)
		c.burst(500, 20, anyOf(5))
		for _, limit := range []int64{600, 900} {
			c.setLimit(limit)
			if refused, _ := c.burst(500, 20, anyOf(5)); c.most != limit || refused == 0 {
				t.Errorf("%d tasks at a limit of %d, %d refused", c.most, limit, refused)
			}
		}
	})
}

// TestLowerLimit checks that a lower limit is exact while the use shrinks to it. Tasks that end at some shards only
// make no room beyond it, nor does a Raise that is lost.
func TestLowerLimit(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("raises lost ", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newLevels(t, 3, 30)
				c.burst(40, 10, anyOf(3))
				assert.MustEqual(t, c.most, 30, "tasks")
				c.setLimit(12)
				for i := range 3 {
					if full, _ := c.create(i); full == nil {
						t.Error("a task was made above the limit")
					}
				}
				c.mu.Lock()
				c.mute = lost
				c.mu.Unlock()
				sleep(fullFor)
				if full, _ := c.create(0); full == nil {
					t.Error("a task was made above the limit")
				}
				c.mu.Lock()
				kept := min(c.stores[2].tasks, 9) // one shard keeps its tasks, and the others lose theirs
				c.mute, c.most = false, 0
				c.mu.Unlock()
				for i, n := range []int64{30, 30, c.stores[2].tasks - kept} {
					c.drop(i, n)
				}
				sleep(fullFor)
				c.burst(40, 10, anyOf(3))
				assert.Equal(t, c.most, 12, "tasks")
			})
		})
	}
}

// TestLevelMoves checks that a full level stays full while tasks move between shards, with claims under way or without.
func TestLevelMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 300
		c := newLevels(t, 4, limit)
		c.burst(400, 20, anyOf(3))
		for i := range 12 {
			c.move(i%4, (i+1)%4, 60)
			if i%2 == 0 {
				sleep(fullFor)
			}
			c.burst(80, 20, anyOf(4))
		}
		assert.Equal(t, c.most, limit, "tasks")
	})
}

// move moves a slot with up to n tasks from one shard to another. They count twice for a while.
func (c *levels) move(from, to int, n int64) {
	c.mu.Lock()
	n = min(n, c.stores[from].tasks)
	c.stores[to].tasks += n
	c.stores[from].slots--
	c.stores[to].slots++
	c.mu.Unlock()
	sleep(20 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[from].tasks -= n
	c.stores[from].drops++
}

// TestLevelSurvives checks that a level never passes its limit, and is within 5 % of it at every refusal, while shards
// change their leaders, are without any for a while, and the owner is lost.
func TestLevelSurvives(t *testing.T) {
	for _, shards := range []int{3, 5} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = 2000
				c := newLevels(t, shards, limit)
				stop := make(chan struct{})
				var faults sync.WaitGroup
				faults.Go(func() {
					for {
						c.fault(rand.IntN(shards))
						select {
						case <-stop:
							return
						case <-time.After(400 * time.Millisecond):
						}
					}
				})
				for range 40 {
					_, fewest := c.burst(1000, 20, anyOf(shards))
					if fewest < limit*95/100-20 {
						t.Errorf("refused at %d tasks", fewest)
					}
					c.drop(rand.IntN(shards), 300)
					sleep(fullFor)
				}
				close(stop)
				faults.Wait()
				sleep(time.Second)
				if c.most > limit || c.most < limit*95/100 {
					t.Errorf("%d tasks at most", c.most)
				}
			})
		})
	}
}

// fault changes the leader of a shard, after a time without one, or the owner.
func (c *levels) fault(i int) {
	switch rand.IntN(3) {
	case 0:
		c.lead(i)
	case 1:
		c.silence(i)
		sleep(300 * time.Millisecond)
		c.lead(i)
	case 2:
		c.mu.Lock()
		c.owner = nil
		c.mu.Unlock()
		sleep(300 * time.Millisecond)
		c.newOwner()
	}
}

// TestUnsure checks that a call gets no refusal by a quota if the silence of a shard is the only reason for it.
func TestUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLevels(t, 3, 300)
		c.burst(220, 10, func() int { return 0 })
		c.newOwner()
		c.lead(1)
		c.silence(2)
		assert.ErrorIs(t, c.stores[1].level.Claim(t.Context(), 300, 1), ErrUnsure)
		c.lead(2)
		assert.Equal(t, c.stores[1].level.Claim(t.Context(), 300, 80), nil)
	})
}

// TestSilentShard checks that no shard gets room that a silent shard may have used: under a new owner, which has not
// heard of it, and under one that has, after tasks have moved to it. After some time the others go on.
func TestSilentShard(t *testing.T) {
	const limit = 300
	for name, hide := range map[string]func(c *levels){
		"new owner": func(c *levels) {
			c.burst(270, 10, func() int { return 2 })
			c.silence(2)
			c.newOwner()
		},
		"tasks that moved": func(c *levels) {
			c.burst(270, 10, func() int { return 0 })
			c.silence(2)
			c.move(0, 2, 270)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newLevels(t, 3, limit)
				hide(c)
				c.burst(50, 10, func() int { return 1 })
				if c.most > limit || c.unsure == 0 {
					t.Errorf("%d tasks of %d, %d claims unsure", c.most, limit, c.unsure)
				}
				had := c.sum()
				sleep(patientTrips * trip)
				c.burst(10, 1, func() int { return 1 })
				assert.Equal(t, c.sum(), had+10, "%d tasks, and later", had)
			})
		})
	}
}

// silence takes the leader of a shard away.
func (c *levels) silence(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[i].level = nil
}

// TestFarLevel checks that shards far from their owner fill a limit exactly within the Trip, and that no claim is
// unsure.
func TestFarLevel(t *testing.T) {
	for _, limit := range []int64{30, 2000} {
		synctest.Test(t, func(t *testing.T) {
			c := newFarLevels(t, 3, limit, 400*time.Millisecond, 500*time.Millisecond)
			refused, fewest := c.burst(int(limit)*11/10+50, min(int(limit), 50), anyOf(3))
			if c.most != limit || refused == 0 || fewest < limit-50 || c.unsure > 0 {
				t.Errorf("%d tasks of %d, %d refused, one at %d, %d unsure", c.most, limit, refused, fewest, c.unsure)
			}
		})
	}
}

// TestOldRounds checks that a former owner, which still believes to be one, raises no ceiling after a later owner's
// trim.
func TestOldRounds(t *testing.T) {
	l := NewLevel(LevelConfig{Key: pending})
	l.Trim(Round{Term: 1, Number: 7})
	if _, ok := l.Trim(Round{Term: 2, Number: 1}); !ok {
		t.Error("a later term was refused")
	}
	l.Raise(Round{Term: 1, Number: 7}, 100, 50)
	assert.Equal(t, l.room(100), 0, "a former owner raised the ceiling")
	l.Raise(Round{Term: 2, Number: 1}, 100, 40)
	if _, ok := l.Trim(Round{Term: 1, Number: 8}); ok || l.room(100) != 40 {
		t.Error("a former owner lowered the ceiling")
	}
	l.Raise(Round{Term: 2, Number: 1}, 100, 90)
	assert.Equal(t, l.room(100), 40, "a round raised the ceiling twice")
}

// TestDivide checks that the ceilings of a round never exceed the limit together, unless those of holders that did not
// answer do.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 1000).Draw(t, "limit")
		parts := make([]part, rapid.IntRange(1, 8).Draw(t, "holders"))
		held, wanted := int64(0), int64(0)
		for i := range parts {
			parts[i] = part{
				held: rapid.Int64Range(0, 200).Draw(t, "held"), want: rapid.Int64Range(0, 50).Draw(t, "want"),
				weight: rapid.Int64Range(0, 64).Draw(t, "weight"), lost: rapid.Bool().Draw(t, "lost"),
			}
			held += parts[i].held
			if !parts[i].lost {
				wanted += parts[i].want
			}
		}
		used := divide(limit, parts)
		sum, met, lost := int64(0), int64(0), int64(0)
		for _, p := range parts {
			if p.ceiling < p.held && (p.lost || used <= limit) {
				t.Fatalf("a ceiling below its use: %+v", p)
			}
			if p.lost {
				if lost += p.held; p.ceiling != p.held {
					t.Fatalf("a holder that did not answer was given more: %+v", p)
				}
			}
			sum += p.ceiling
			met += max(min(p.ceiling-p.held, p.want), 0)
		}
		if used != held || sum > max(limit, lost) {
			t.Fatalf("%d of %d given, %d used of %d", sum, limit, used, held)
		}
		if met < min(wanted, limit-held) {
			t.Fatalf("%d of %d wanted, with room for %d", met, wanted, limit-held)
		}
	})
}
