//go:build linux

package peers

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/bench/peers/postgres"
	"github.com/belfryhq/belfry/bench/peers/rabbitmq"
	"github.com/belfryhq/belfry/bench/peers/redis"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/assert"
)

// servers maps the first word of a subject's name to its server's name in BELFRY_TEST_BROKERS.
var servers = map[string]string{
	"Redis": "redis", "asynq": "redis", "beanstalkd": "beanstalkd", "NATS": "nats", "RabbitMQ": "rabbitmq",
	"PostgreSQL": "postgresql", "etcd": "etcd",
}

// wantPeer skips a test unless BELFRY_TEST_BROKERS, a comma-separated list, names the subject's server. `make
// test-brokers` sets the variable.
func wantPeer(t *testing.T, s subject.Subject) {
	t.Helper()
	server := servers[strings.Trim(strings.Fields(s.Name)[0], ",")]
	if server == "" {
		t.Fatalf("no server is known for %q", s.Name)
	}
	if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_BROKERS"), ","), server) {
		t.Skipf("BELFRY_TEST_BROKERS does not name %s: make test-brokers", server)
	}
	assert.MustEqual(t, s.Missing(), "", "missing")
}

// early returns how early a subject's tasks may be. asynq cuts due instants to whole seconds.
func early(s subject.Subject) time.Duration {
	if s.Name == redis.Asynq().Name {
		return time.Second
	}
	return 0
}

func all() []subject.Subject { return slices.Concat(All(), ForLateness()) }

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range all() {
		if seen[s.Name] {
			t.Errorf("two are called %q", s.Name)
		}
		seen[s.Name] = true
		if p := s.Promise; p.Nodes < 1 || p.Fsync == "" || p.Replicated != (p.Nodes > 1) {
			t.Errorf("%s promises %+v", s.Name, p)
		}
	}
}

// round is the test of one subject.
type round struct {
	*testing.T
	subject subject.Subject
	service subject.Service
	dir     string
	due     map[string]time.Time // of the tasks that must arrive
	gone    map[string]bool      // cancelled tasks, which must not arrive
}

// roundTime is many times as long as a round takes on two free processors, at most 18 s: other load of the machine may
// leave a server almost no processor time.
const roundTime = 5 * time.Minute

func startRound(t *testing.T, s subject.Subject) *round {
	t.Helper()
	wantPeer(t, s)
	r := &round{T: t, subject: s, dir: t.TempDir(), due: map[string]time.Time{}, gone: map[string]bool{}}
	var err error
	r.service, err = s.Start(r.context(), r.dir)
	assert.NoError(t, err)
	t.Cleanup(r.stop)
	usage, err := procstat.OfTrees(r.service.PIDs()...)
	if err != nil || len(usage) == 0 || usage[0].Memory < 1<<20 {
		t.Errorf("its processes %v use %+v, %v", r.service.PIDs(), usage, err)
	}
	return r
}

func (r *round) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), roundTime)
	r.Cleanup(cancel)
	return ctx
}

// stop stops the service and checks that no process is left behind.
func (r *round) stop() {
	r.check(r.service.Stop())
	if pids := r.service.PIDs(); len(pids) > 0 {
		r.Errorf("processes %v run still", pids)
	}
	left := r.leftBehind()
	for end := time.Now().Add(leaving); len(left) > 0 && time.Now().Before(end); left = r.leftBehind() {
		<-time.After(100 * time.Millisecond)
	}
	for _, process := range left {
		r.Errorf("%s is left behind in %s", process, r.dir)
	}
	if r.Failed() {
		r.showLogs()
	}
}

// leaving is the time for a server's own children to end after the server.
const leaving = 5 * time.Second

// leftBehind returns the processes that work in the round's folder.
func (r *round) leftBehind() []string {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	r.check(err)
	var left []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, r.dir) {
			left = append(left, filepath.Dir(link))
		}
	}
	return left
}

func (r *round) showLogs() {
	r.check(filepath.WalkDir(r.dir, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".log" {
			r.Logf("the end of %s:\n%s", path, child.LogTail(path))
		}
		return err
	}))
}

func (r *round) check(err error) {
	r.Helper()
	assert.Equal(r, err, nil)
}

func (r *round) caller() subject.Caller {
	r.Helper()
	c, err := r.service.Caller(r.context())
	assert.NoError(r, err)
	return c
}

func (r *round) must(err error) {
	r.Helper()
	assert.NoError(r, err)
}

// ahead is the time between the first call of a round and its first due instant. It is many times as long as the calls
// before the change of the first task take.
const ahead = 5 * time.Second

// schedule schedules 100 tasks, half of them as a batch if the subject can.
func (r *round) schedule(c subject.Caller) {
	r.Helper()
	var tasks []subject.Task
	soon := time.Now().Add(ahead).Truncate(time.Millisecond)
	for i := range 100 {
		id := fmt.Sprintf("task-%d", i)
		r.due[id] = soon.Add(time.Duration(i) * 7 * time.Millisecond)
		tasks = append(tasks, subject.Task{ID: id, Due: r.due[id], Payload: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	if b, ok := c.(subject.BatchScheduler); ok {
		r.must(b.ScheduleBatch(r.context(), tasks[50:]))
		tasks = tasks[:50]
	}
	for _, task := range tasks {
		r.must(c.Schedule(r.context(), task))
	}
}

// change cancels some tasks and postpones one.
func (r *round) change(c subject.Caller) {
	r.Helper()
	if can, ok := c.(subject.Canceller); ok {
		r.must(can.Cancel(r.context(), "task-0"))
		r.cancelled("task-0")
		for _, id := range []string{"task-0", "nobody"} {
			assert.Error(r, can.Cancel(r.context(), id), "%s was cancelled, though it is not there", id)
		}
	}
	if can, ok := c.(subject.BatchCanceller); ok {
		r.must(can.CancelBatch(r.context(), []string{"task-1", "task-51"}))
		r.cancelled("task-1", "task-51")
		assert.Error(r, can.CancelBatch(r.context(), []string{"task-1"}), "task-1 was cancelled twice")
	}
	if can, ok := c.(subject.Toucher); ok {
		r.due["task-2"] = time.Now().Add(2 * ahead).Truncate(time.Millisecond)
		r.must(can.Touch(r.context(), "task-2", r.due["task-2"]))
		assert.Error(r, can.Touch(r.context(), "nobody", time.Now()), "a touch of an absent task")
	}
}

func (r *round) cancelled(ids ...string) {
	for _, id := range ids {
		delete(r.due, id)
		r.gone[id] = true
	}
}

// settle receives or cancels all tasks that must be there.
func (r *round) settle(c subject.Caller) {
	r.Helper()
	if _, ok := c.(subject.Consumer); ok {
		r.consume(c)
		return
	}
	can := c.(subject.Canceller)
	for id := range r.due {
		r.check(can.Cancel(r.context(), id))
	}
	for id := range r.gone {
		assert.Error(r, can.Cancel(r.context(), id), "%s was cancelled twice", id)
	}
}

// consume receives all tasks that must arrive, and checks that none is early.
func (r *round) consume(c subject.Caller) {
	r.Helper()
	ctx, done := context.WithCancel(r.context())
	defer done()
	var mu sync.Mutex
	seen := map[string]bool{}
	err := c.(subject.Consumer).Consume(ctx, func(id string, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		due, ok := r.due[id]
		switch {
		case strings.HasPrefix(id, attempt):
			return
		case r.gone[id]:
			r.Errorf("%s came, though it was cancelled", id)
		case !ok:
			r.Errorf("%q came, but was never scheduled", id)
		case due.Sub(at) > early(r.subject):
			r.Errorf("%s came %v early", id, due.Sub(at))
		}
		seen[id] = true
		if len(seen) == len(r.due) {
			done()
		}
	})
	r.check(err)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < len(r.due) {
		r.Errorf("%d of %d came", len(seen), len(r.due))
	}
}

// revive kills all processes and restarts them. It returns a caller that can schedule.
func (r *round) revive() subject.Caller {
	r.Helper()
	k := r.service.(subject.Killer)
	r.must(k.KillAll())
	r.must(k.Restart(r.context()))
	return r.await()
}

// attempt is the prefix of the ids of trial tasks, which may or may not arrive.
const attempt = "attempt"

// await returns a caller that can schedule.
func (r *round) await() subject.Caller {
	r.Helper()
	ctx, poll := r.context(), time.NewTicker(50*time.Millisecond)
	defer poll.Stop()
	for n := 0; ; n++ {
		c, err := r.service.Caller(ctx)
		if err == nil {
			try, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = c.Schedule(try, subject.Task{ID: fmt.Sprint(attempt, n), Due: time.Now(), Payload: []byte("{}")})
			cancel()
		}
		if err == nil {
			return c
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			r.Fatalf("it does not take tasks: %v", err)
		}
	}
}

// forgets reports whether a subject loses tasks by design when it is killed: Redis key expiry notifies only connected
// listeners, and RabbitMQ with a queue for each second makes queues late.
func forgets(s subject.Subject) bool {
	return s.Name == redis.Expiry().Name || s.Name == rabbitmq.QueuePerSecond().Name
}

// inMemory reports whether a subject acknowledges tasks before they are on disk. The test does not require that such a
// subject fires after a kill; the bench measures it. Three replicas of NATS sometimes fire nothing for minutes then.
func inMemory(s subject.Subject) bool { return s.Promise.Fsync == subject.FsyncNone }

func TestPeers(t *testing.T) {
	for _, s := range all() {
		t.Run(s.Name, func(t *testing.T) {
			r := startRound(t, s)
			c := r.caller()
			if forgets(s) {
				c = r.revive()
			}
			r.schedule(c)
			r.change(c)
			if !forgets(s) && !inMemory(s) {
				c = r.revive()
			}
			r.settle(c)
		})
	}
}

// keepsLeader reports whether no other process takes the place of a subject's leader: PostgreSQL leaves that to a tool.
func keepsLeader(s subject.Subject) bool { return s.Name == postgres.WithStandbys().Name }

func TestLeaderIsKilled(t *testing.T) {
	for _, s := range all() {
		if s.Promise.Nodes == 1 || keepsLeader(s) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			r := startRound(t, s)
			before := len(r.service.PIDs())
			r.schedule(r.caller())
			r.must(r.service.(subject.LeaderKiller).KillLeader())
			if n := len(r.service.PIDs()); before < s.Promise.Nodes || n != before-1 {
				t.Errorf("%d of %d processes are left", n, before)
			}
			if c := r.await(); !inMemory(s) {
				r.settle(c)
			}
		})
	}
}
