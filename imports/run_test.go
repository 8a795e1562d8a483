package imports_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node/nodetest"
)

// shelf is a Mover in memory. The test plays its workers.
type shelf struct {
	waiting, claimed []imports.Record
	beforeClaim      func()
	beforeFinish     func() error
}

func (s *shelf) Records(context.Context) iter.Seq2[imports.Record, error] {
	return func(yield func(imports.Record, error) bool) {
		for _, r := range slices.Clone(s.claimed) {
			if r.Claimed = true; !yield(r, nil) {
				return
			}
		}
		for _, r := range slices.Clone(s.waiting) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// take removes the records with these keys from a list, and returns them.
func take(from *[]imports.Record, keys ...string) (taken []imports.Record) {
	wanted := map[string]bool{}
	for _, key := range keys {
		wanted[key] = true
	}
	*from = slices.DeleteFunc(*from, func(r imports.Record) bool {
		if wanted[r.Key] {
			taken = append(taken, r)
		}
		return wanted[r.Key]
	})
	return taken
}

func keysOf(records []imports.Record) []string {
	keys := make([]string, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys
}

func (s *shelf) Claim(_ context.Context, records []imports.Record) (had []bool, err error) {
	if s.beforeClaim != nil {
		s.beforeClaim()
	}
	taken := take(&s.waiting, keysOf(records)...)
	s.claimed = append(s.claimed, taken...)
	there := map[string]bool{}
	for _, key := range keysOf(taken) {
		there[key] = true
	}
	for _, r := range records {
		had = append(had, there[r.Key])
	}
	return had, nil
}

func (s *shelf) Finish(_ context.Context, records []imports.Record) error {
	if s.beforeFinish != nil {
		if err := s.beforeFinish(); err != nil {
			return err
		}
	}
	take(&s.claimed, keysOf(records)...)
	return nil
}

func (s *shelf) GiveBack(_ context.Context, records []imports.Record) error {
	s.waiting = append(s.waiting, take(&s.claimed, keysOf(records)...)...)
	return nil
}

// records returns n records that are due an hour from now, with the keys k0, k1 and so on.
func records(n int) []imports.Record {
	list := make([]imports.Record, n)
	for i := range list {
		key := fmt.Sprint("k", i)
		list[i] = imports.Record{Key: key, Text: "text of " + key, Task: client.Task{
			ID: "old:" + key, Queue: "jobs", FireAt: time.Now().Add(time.Hour), Payload: json.RawMessage(fmt.Sprint(i)),
		}}
	}
	return list
}

// soon makes records due in five seconds.
func soon(list []imports.Record) []imports.Record {
	for i := range list {
		list[i].Task.FireAt = time.Now().Add(5 * time.Second)
	}
	return list
}

// forgetSoon makes the queue of all records forget finished tasks after a second.
func forgetSoon(t *testing.T, c *client.Client) {
	t.Helper()
	_, err := c.PutQueue(t.Context(), client.Queue{Name: "jobs", KeepDone: time.Second})
	assert.NoError(t, err)
}

// onNode runs a test with a client of a node in memory.
func onNode(t *testing.T, test func(t *testing.T, c *client.Client, nodes *nodetest.Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		nodes := nodetest.Start(t, 1, nil)
		test(t, nodes.Client(client.Config{}), nodes)
	})
}

// troubles collects the reports of an import, as in "k1 old:k1: reason".
type troubles []string

func (l *troubles) add(t imports.Trouble) {
	*l = append(*l, t.Key+" "+t.ID+": "+t.Reason)
}

func (l *troubles) text() string {
	slices.Sort(*l)
	return strings.Join(*l, "\n")
}

// checkSum checks that each record is counted once.
func checkSum(t *testing.T, totals imports.Totals, read int) {
	t.Helper()
	assert.Equal(t, totals.Read, read, "read")
	assert.Equal(t, totals.Scheduled+totals.Existing+totals.Conflicts+totals.Left+totals.Refused, read, "%+v", totals)
}

// A repeated import finds its own tasks. Each record that is no task of the cluster is named, and counted once.
func TestTotals(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		source := &shelf{waiting: records(10_000)}
		list := source.waiting
		list[1].Err = errors.New("it is broken")
		list[2].Err = imports.ErrGone
		list[3].Task.Queue = "no name of a queue"
		list[4].Task.Payload = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)
		list[5].Task.Payload = json.RawMessage(`"` + strings.Repeat("x", 600<<10) + `"`)
		list[6].Task.Payload = json.RawMessage("{\n  \"n\": 6\n}")
		list[7].Task.Payload = json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)
		_, err := c.Schedule(t.Context(), client.Task{ID: "old:k8", Queue: "jobs", FireAt: list[8].Task.FireAt, Payload: []byte(`"another"`)})
		assert.NoError(t, err)
		_, err = c.Schedule(t.Context(), client.Task{ID: "old:k9", Queue: "jobs", Delay: time.Minute})
		assert.NoError(t, err)

		for run, want := range []imports.Totals{{Scheduled: 9993}, {Existing: 9993}} {
			var named troubles
			seen := 0
			totals, err := imports.Run(t.Context(), source, c, imports.Options{
				Verify: true, Report: named.add, Progress: func(now imports.Totals) { seen = now.Read },
			})
			assert.NoError(t, err)
			checkSum(t, totals, 10_000)
			assert.Equal(t, seen, 10_000, "progress")
			assert.Equal(t, *totals.Verified, imports.Verification{Same: 9993})
			totals.Verified = nil
			want.Read, want.Conflicts, want.Left, want.Refused = 10_000, 2, 1, 4
			assert.Equal(t, totals, want, "run %d", run)
			assert.Equal(t, totals.Failed(), 6)
			due := list[9].Task.FireAt.UTC().Format(time.RFC3339Nano)
			for _, part := range []string{
				"k1 old:k1: it is broken", "k3 old:k3: 400 queue", "k4 old:k4: 413", "k5 old:k5: 413",
				"k8 old:k8: the cluster has another one of this id: it has another payload",
				"k9 old:k9: the cluster has another one of this id: it is due at ", ", and not at " + due,
			} {
				assert.Contains(t, named.text(), part)
			}
		}
		task, err := c.Get(t.Context(), "old:k8")
		assert.NoError(t, err)
		assert.Equal(t, string(task.Payload), `"another"`, "a conflict changes nothing")
	})
}

// A move takes each record that the workers leave, and gives back those that the cluster refuses.
func TestMove(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		source := &shelf{waiting: records(5000)}
		source.waiting[7].Task.Queue = "no name of a queue"
		source.waiting[4999].Err = errors.New("it is broken")
		source.beforeClaim = func() { take(&source.waiting, "k3", "k4500") }
		totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true, Verify: true})
		assert.NoError(t, err)
		checkSum(t, totals, 5000)
		totals.Verified = nil
		assert.Equal(t, totals, imports.Totals{Read: 5000, Scheduled: 4996, Left: 2, Refused: 2})
		assert.Equal(t, len(source.claimed), 0, "claimed")
		assert.Equal(t, len(source.waiting), 2, "what is refused stays with the source")
		for _, id := range []string{"old:k3", "old:k4500"} {
			_, err := c.Get(t.Context(), id)
			assert.ErrorIs(t, err, client.ErrNotFound, "the worker has it")
		}
	})
}

// A task that was cancelled in the cluster is not taken from the source: its workers would have run it.
func TestMoveLeavesCancelled(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		source := &shelf{waiting: records(1)}
		_, err := imports.Run(t.Context(), source, c, imports.Options{})
		assert.NoError(t, err)
		_, err = c.Cancel(t.Context(), "old:k0")
		assert.NoError(t, err)
		totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.NoError(t, err)
		assert.Equal(t, totals, imports.Totals{Read: 1, Conflicts: 1})
		assert.Equal(t, len(source.waiting), 1, "the record stays")
	})
}

// An import that is killed behind any step is finished by the next run, in which no record is lost and no task runs
// twice.
func TestCrash(t *testing.T) {
	crash := errors.New("crash")
	for name, moment := range map[string]func(*shelf, *nodetest.Cluster){
		"behind the claim": func(_ *shelf, nodes *nodetest.Cluster) { nodes.Stop(0) },
		"behind the tasks": func(s *shelf, _ *nodetest.Cluster) {
			s.beforeFinish = func() error { s.beforeFinish = nil; return crash }
		},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(t *testing.T, _ *client.Client, nodes *nodetest.Cluster) {
				c := nodes.Client(client.Config{Timeout: time.Second})
				source := &shelf{waiting: records(5000)}
				source.beforeClaim = func() { source.beforeClaim = nil; moment(source, nodes) }
				totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
				assert.Error(t, err)
				if len(source.claimed) != totals.Scheduled || len(source.claimed)+len(source.waiting) != 5000 {
					t.Errorf("%+v, %d wait and %d are claimed", totals, len(source.waiting), len(source.claimed))
				}
				if nodes.Node(0) == nil {
					nodes.Restart(0)
				}
				totals, err = imports.Run(t.Context(), source, c, imports.Options{Move: true, Verify: true})
				assert.NoError(t, err)
				checkSum(t, totals, 5000)
				assert.Equal(t, totals.Scheduled+totals.Existing, 5000)
				assert.Equal(t, totals.Verified.Same, 5000)
				assert.Equal(t, len(source.waiting)+len(source.claimed), 0, "left in the source")
			})
		})
	}
}

// A record whose task an earlier run may have stored is not given back to the workers: neither while the cluster is away,
// nor if the task was changed or cancelled since. It stays claimed, and is named.
func TestClaimedStaysClaimed(t *testing.T) {
	onNode(t, func(t *testing.T, _ *client.Client, nodes *nodetest.Cluster) {
		c := nodes.Client(client.Config{Timeout: time.Second})
		source := &shelf{waiting: records(3)}
		source.beforeFinish = func() error { return errors.New("crash") }
		_, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.Error(t, err)
		source.beforeFinish = nil
		_, err = c.Patch(t.Context(), "old:k0", client.Patch{Delay: 2 * time.Hour})
		assert.NoError(t, err)
		_, err = c.Cancel(t.Context(), "old:k1")
		assert.NoError(t, err)
		nodes.Stop(0)
		_, err = imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.Error(t, err)
		assert.Equal(t, len(source.claimed), 3, "claimed while the cluster is away")
		nodes.Restart(0)
		var named troubles
		totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true, Report: named.add})
		assert.NoError(t, err)
		assert.Equal(t, totals, imports.Totals{Read: 3, Existing: 1, Conflicts: 2})
		assert.Equal(t, len(source.claimed), 2, "claimed")
		assert.Equal(t, len(source.waiting), 0, "given back")
		assert.Contains(t, named.text(), "k1 old:k1: the cluster has another one of this id: it is cancelled")
	})
}

// A task that was stored before a crash fires. The next run, long after the queue has forgotten it, does not schedule it
// again, but schedules a record that was only claimed.
func TestClaimedTaskHasFired(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		forgetSoon(t, c)
		source := &shelf{waiting: soon(records(1))}
		source.beforeFinish = func() error { return errors.New("crash") }
		_, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.Error(t, err)
		source.beforeFinish = nil
		source.claimed = append(source.claimed, soon(records(2))[1])

		handled := make(chan string, 2)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- c.Consume(ctx, "jobs", client.ConsumeOptions{}, func(_ context.Context, task *client.Leased) error {
				handled <- task.ID
				return nil
			})
		}()
		assert.Equal(t, <-handled, "old:k0")
		<-time.After(time.Minute)
		_, err = c.Get(t.Context(), "old:k0")
		assert.ErrorIs(t, err, client.ErrNotFound, "the queue has forgotten the task")
		totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.NoError(t, err)
		assert.Equal(t, totals, imports.Totals{Read: 2, Scheduled: 1, Existing: 1})
		assert.Equal(t, <-handled, "old:k1")
		assert.Equal(t, len(source.claimed), 0, "claimed")
		synctest.Wait()
		stop()
		assert.NoError(t, <-ended)
	})
}

// A comparison finds a task that is missing and one that was changed. A finished task is neither.
func TestCheck(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		forgetSoon(t, c)
		source := &shelf{waiting: records(6)}
		source.waiting[5].Task.FireAt = time.Now()
		missing := source.waiting[0]
		source.waiting = source.waiting[1:]
		_, err := imports.Run(t.Context(), source, c, imports.Options{})
		assert.NoError(t, err)
		source.waiting = append(source.waiting, missing)
		_, err = c.Patch(t.Context(), "old:k1", client.Patch{Delay: 2 * time.Hour})
		assert.NoError(t, err)
		_, err = c.Patch(t.Context(), "old:k2", client.Patch{Payload: []byte(`"new"`)})
		assert.NoError(t, err)
		leased, err := c.Lease(t.Context(), "jobs", client.Demand{Wait: time.Second})
		assert.NoError(t, err)
		settled := c.Settle(t.Context(), "jobs", client.Settlement{Ack: []string{leased[0].Receipt}})
		assert.NoError(t, settled[0].Err)
		<-time.After(time.Minute)

		var named troubles
		totals, err := imports.Check(t.Context(), source, c, named.add)
		assert.NoError(t, err)
		assert.Equal(t, *totals.Verified, imports.Verification{Same: 2, Finished: 1, Missing: 1, Different: 2})
		assert.Equal(t, totals.Failed(), 3)
		for _, part := range []string{"old:k0: it is not in", "old:k1: in the cluster it is due", "old:k2: in the cluster it has another"} {
			assert.Contains(t, named.text(), part)
		}
	})
}

// An import at a rate takes its time, and an interrupt lets the chunk in progress end.
func TestRateAndInterrupt(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		source := &shelf{waiting: records(1000)}
		ctx, interrupt := context.WithCancel(t.Context())
		began := time.Now()
		o := imports.Options{Move: true, PerSecond: 100, Progress: func(now imports.Totals) {
			if now.Read == 300 {
				interrupt()
			}
		}}
		totals, err := imports.Run(ctx, source, c, o)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, totals, imports.Totals{Read: 300, Scheduled: 300})
		assert.Equal(t, len(source.claimed), 0, "claimed")
		if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("300 records took %v", took)
		}
		totals, err = imports.Run(t.Context(), source, c, o)
		assert.NoError(t, err)
		checkSum(t, totals, 700)
	})
}

// A dry run shows tasks, and changes neither side.
func TestPreview(t *testing.T) {
	source := &shelf{waiting: records(3)}
	source.waiting[1].Err = errors.New("it is broken")
	var shown []string
	var named troubles
	totals, err := imports.Preview(t.Context(), source, func(r *imports.Record) { shown = append(shown, r.Task.ID) }, named.add)
	assert.NoError(t, err)
	assert.Equal(t, totals, imports.Totals{Read: 3, Scheduled: 2, Refused: 1})
	assert.EqualSlices(t, shown, []string{"old:k0", "old:k2"})
	assert.Equal(t, named.text(), "k1 old:k1: it is broken")
}

// A cluster that refuses the caller ends the import, and the records stay with the source.
func TestForbidden(t *testing.T) {
	onNode(t, func(t *testing.T, _ *client.Client, nodes *nodetest.Cluster) {
		source := &shelf{waiting: records(3)}
		c := nodes.Client(client.Config{Namespace: "nowhere"})
		totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.Error(t, err)
		assert.Equal(t, totals, imports.Totals{})
		assert.Equal(t, len(source.waiting), 3, "they wait")
	})
}

func TestCopyOnly(t *testing.T) {
	_, err := imports.Run(t.Context(), imports.NDJSON{In: strings.NewReader("")}, nil, imports.Options{Move: true})
	assert.Error(t, err)
}

func TestStableID(t *testing.T) {
	for key, want := range map[string]string{
		"bull:mails:42":          "p-bull:mails:42",
		"a key with spaces":      imports.StableID("p-", "a key with spaces"),
		strings.Repeat("x", 199): imports.StableID("p-", strings.Repeat("x", 199)),
	} {
		got := imports.StableID("p-", key)
		if got != want || len(got) > 200 || strings.ContainsAny(got, " /") {
			t.Errorf("%q: %q", key, got)
		}
	}
	if imports.StableID("", "a/b") == imports.StableID("", "a b") {
		t.Error("two keys share an id")
	}
}

// A source may have tasks beside schedules. A schedule that an earlier move has claimed is found again.
func TestTasksBesideSchedules(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		source := &shelf{waiting: records(4)}
		for i := range source.waiting {
			if r := &source.waiting[i]; i%2 == 0 {
				rule := client.Repeat{Every: time.Duration(i+1) * time.Hour}
				r.Schedule = &client.Schedule{ID: r.Task.ID, Repeat: rule, Task: client.Task{Queue: "jobs", Payload: r.Task.Payload}}
				r.Task = client.Task{}
			}
		}
		all := slices.Clone(source.waiting)
		for _, want := range []imports.Totals{{Read: 4, Scheduled: 4}, {Read: 4, Existing: 4}} {
			totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true, Verify: true})
			assert.NoError(t, err)
			assert.Equal(t, *totals.Verified, imports.Verification{Same: 4})
			totals.Verified = nil
			assert.Equal(t, totals, want)
			assert.Equal(t, len(source.waiting)+len(source.claimed), 0)
			source.claimed = slices.Clone(all) // as if the import had been killed before it finished them
		}
		all[0].Schedule.Repeat.Every = time.Minute
		totals, err := imports.Run(t.Context(), source, c, imports.Options{Move: true})
		assert.NoError(t, err)
		assert.Equal(t, totals, imports.Totals{Read: 4, Existing: 3, Conflicts: 1})
	})
}
