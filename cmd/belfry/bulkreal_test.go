package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// bulkTasks returns the number of tasks of a bulk operation's test: two million in the long form.
func bulkTasks() int {
	if gated.Has(gated.Long) {
		return 2_000_000
	}
	return 10_000
}

// halfLabelled yields tasks of which every second one has the label half.
func halfLabelled(n int) iter.Seq[client.Task] {
	return func(yield func(client.Task) bool) {
		for i := range n {
			t := client.Task{ID: fmt.Sprint("b-", i), Queue: "bulk", Delay: 24 * time.Hour, Payload: []byte(`1`)}
			if i%2 == 0 {
				t.Labels = map[string]string{"half": "yes"}
			}
			if !yield(t) {
				return
			}
		}
	}
}

// TestBulkCancelSurvivesKills cancels every second task of a namespace by label, while more tasks are scheduled, and
// while the leader of the control group, which carries the operation on, is killed again and again, and with it leaders
// of shards. The totals are exact, each labelled task is cancelled, and no other task is.
func TestBulkCancelSurvivesKills(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	g := newGuarded(t)
	g.must(0, g.admin, "namespace put shop")
	c := g.client(g.key("shop", g.must(0, g.admin, "key create shop --role admin --namespace shop")))
	n := bulkTasks()
	for r := range c.ScheduleMany(t.Context(), halfLabelled(n)) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	endLoad := g.beginLoad(c)
	began := time.Now()
	request := client.BulkRequest{
		Op: client.BulkCancel, Filter: client.BulkFilter{Labels: map[string]string{"half": "yes"}}, PerSecond: bulkRate(),
	}
	op, err := c.BeginBulk(t.Context(), request)
	assert.NoError(t, err)
	kills := 0
	for ; kills < 3; kills++ {
		g.awaitProgress(c, op.ID)
		g.kill(g.controlLeader())
	}
	for !g.ended(c, op) {
		g.awaitProgress(c, op.ID)
	}
	took, beside := time.Since(began), endLoad()
	want := map[string]int{"cancelled": n / 2}
	if op.State != client.OperationDone || *op.Matched != n/2 || op.Done != n/2 || op.Outcomes["cancelled"] != n/2 ||
		len(op.Outcomes) != 1 {
		t.Errorf("%+v, want %v", op, want)
	}
	t.Logf("%d of %d tasks are cancelled after %v, beside %d kills and %d new tasks",
		n/2, n, took.Round(time.Second), kills, beside)
	g.checkHalf(c, n)
	g.checkLoad(c, beside)
}

const besideBulk = "beside-" // prefix of the ids of tasks that are scheduled beside a bulk operation

// beginLoad schedules tasks one after the other until the returned function is called, which returns their number.
func (g *guarded) beginLoad(c *client.Client) (end func() int) {
	stop, made := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; {
			select {
			case <-stop:
				made <- n
				return
			case <-g.t.Context().Done():
				return
			default:
			}
			task := client.Task{ID: fmt.Sprint(besideBulk, n), Queue: "bulk", Delay: 24 * time.Hour}
			if _, err := c.Schedule(g.t.Context(), task); err == nil {
				n++ // otherwise the same task again
			}
		}
	}()
	return func() int {
		close(stop)
		return <-made
	}
}

// checkLoad checks that the tasks that were scheduled beside a bulk operation wait.
func (g *guarded) checkLoad(c *client.Client, n int) {
	g.t.Helper()
	waiting := 0
	filter := client.Filter{Prefix: besideBulk, States: []client.State{client.StateScheduled}, PageSize: 1000}
	for _, err := range c.List(g.t.Context(), filter) {
		assert.NoError(g.t, err)
		waiting++
	}
	if waiting < n || waiting > n+1 || n == 0 { // the last call may have been made, and not been answered
		g.t.Errorf("%d of %d tasks that were scheduled meanwhile wait", waiting, n)
	}
}

// bulkRate is a rate at which the short form lasts for some kills.
func bulkRate() int {
	if bulkTasks() > 10_000 {
		return 0
	}
	return 500
}

// awaitProgress waits until an operation has done more, or has ended.
func (g *guarded) awaitProgress(c *client.Client, id string) {
	g.t.Helper()
	first := -1
	await(g.t, "progress of the operation", func() bool {
		op, err := c.Operation(g.t.Context(), id)
		if err != nil {
			return false
		}
		if first < 0 {
			first = op.Done
		}
		return op.Done > first || op.State != client.OperationRunning
	})
}

// ended reads an operation into op, and reports whether it has ended.
func (g *guarded) ended(c *client.Client, op *client.Operation) bool {
	now, err := c.Operation(g.t.Context(), op.ID)
	if err != nil {
		return false
	}
	*op = *now
	return op.State != client.OperationRunning
}

// checkHalf reads all tasks: those with the label are cancelled, and the others are scheduled.
func (g *guarded) checkHalf(c *client.Client, n int) {
	g.t.Helper()
	states := map[client.State]int{}
	for task, err := range c.List(g.t.Context(), client.Filter{Prefix: "b-", PageSize: 1000}) {
		assert.NoError(g.t, err)
		states[task.State]++
		if labelled := task.Labels["half"] == "yes"; labelled != (task.State == client.StateCancelled) {
			g.t.Fatalf("task %s with the labels %v is %s", task.ID, task.Labels, task.State)
		}
	}
	if states[client.StateScheduled] != n/2 || len(states) > 2 || states[client.StateCancelled] > n/2 ||
		bulkTasks() == 10_000 && states[client.StateCancelled] != n/2 { // tombstones of the long form may be trimmed
		g.t.Errorf("states: %v of %d tasks", states, n)
	}
}

// TestBulkOperationsOnANode begins each kind of bulk operation on a real node by the command line, and checks what they
// did.
func TestBulkOperationsOnANode(t *testing.T) {
	addr, c, namespace := inNamespace(t)
	for i := range 20 {
		task := client.Task{ID: fmt.Sprint("t", i), Queue: "mails", Delay: time.Hour, Labels: map[string]string{"n": fmt.Sprint(i % 2)}}
		_, err := c.Schedule(t.Context(), task)
		assert.NoError(t, err)
	}
	schedule := client.Schedule{ID: "daily", Repeat: client.Repeat{Cron: []string{"@daily"}}, Task: client.Task{Queue: "mails"}}
	_, err := c.PutSchedule(t.Context(), schedule)
	assert.NoError(t, err)
	for _, step := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"cancel"}, "give a filter, or --all", exitUsage},
		{[]string{"cancel", "--queue", "mails"}, "give --yes", exitUsage},
		{[]string{"cancel", "--queue", "mails", "--all"}, "beside a filter", exitUsage},
		{[]string{"move", "--queue", "mails"}, "give one of --by, --at and --in", exitUsage},
		{[]string{"patch", "--queue", "mails"}, "no JSON", exitUsage},
		{[]string{"patch", "--all", "--patch", `{"payload":1}`, "--yes"}, "payload", exitFailed},
		{[]string{"cancel", "--queue", "mails", "--label", "n=1", "--dry-run"}, "10 tasks pass the filter", 0},
		{[]string{"cancel", "--queue", "none", "--dry-run", "--json"}, `"matched":0`, 0},
		{[]string{"move", "--label", "n=0", "--by", "2h", "--yes", "--wait"}, "done, 100 % of the slots (10 of 10 matched tasks): moved 10", 0},
		{[]string{"patch", "--label", "n=0", "--patch", `{"labels":{"p":"q"}}`, "--yes", "--wait"}, "patched 10", 0},
		{[]string{"cancel", "--label", "n=1", "--yes", "--wait"}, "cancelled 10", 0},
		{[]string{"cancel", "--label", "n=1", "--state", "cancelled", "--yes", "--wait"}, "cancelled 10", 0},
		{[]string{"cancel", "--all", "--due-before", "2h", "--yes", "--wait"}, "beside a filter", exitUsage},
		{[]string{"cancel", "--due-before", "2h", "--yes", "--wait"}, "0 of 0 matched", 0},
		{[]string{"fire", "--due-after", "2h", "--label", "p=q", "--yes", "--wait"}, "fired 10", 0},
		{[]string{"replay", "--queue", "mails", "--yes", "--wait"}, "0 of 0 matched", 0},
		{[]string{"purge", "--all", "--yes", "--wait"}, "0 of 0 matched", 0},
		{[]string{"list"}, "cancel tasks of " + namespace + ": label=n:1", 0},
		{[]string{"stop", "op-0"}, "no operation has this id", exitNotFound},
	} {
		out, code := belfry(t, append(append([]string{"operation"}, step.args...), "--addr", addr)...)
		if code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("belfry operation %v: exit %d, want %d and %q\n%s", step.args, code, step.code, step.want, out)
		}
	}
	awaitState(t, c, "t0", client.StateReady) // fired: the task waits only for a consumer
	if s, err := c.GetSchedule(t.Context(), "daily"); err != nil || s.ID != "daily" {
		t.Errorf("the schedule: %+v, %v", s, err)
	}
}

// TestManySchedules pauses, resumes, patches and deletes schedules of a real node by filter.
func TestManySchedules(t *testing.T) {
	addr, c, name := inNamespace(t)
	for id, team := range map[string]string{"a-1": "x", "a-2": "x", "b-1": "y"} {
		s := client.Schedule{ID: id, Repeat: client.Repeat{Cron: []string{"0 9 * * *"}}}
		s.Task.Labels = map[string]string{"team": team}
		_, err := c.PutSchedule(t.Context(), s)
		assert.NoError(t, err)
	}
	_, err := c.PauseSchedule(t.Context(), "a-2", "mine")
	assert.NoError(t, err)
	for _, step := range [][2]string{
		{"pause-schedules --label team=x --dry-run", "2 schedules pass the filter; nothing was done"},
		{"pause-schedules --label team=x --note ours --yes --wait", "of " + name + ": label=team:x: done"},
		{"resume-schedules --label team=x --yes --wait", "(2 of 2 matched schedules): resumed 2"},
		{`patch-schedules --all --yes --wait --patch {"repeat":{"every":"1h"}}`, "refused 3"},
		{`patch-schedules --all --yes --wait --patch {"repeat":{"every":"1h","cron":null},"note":"z"}`, "patched 3"},
		{"delete-schedules --prefix a- --yes --wait", "deleted 2"},
	} {
		args := append([]string{"operation"}, strings.Fields(step[0])...)
		out, err := printed(t, append(args, "--addr", addr, "--namespace", name)...)
		if err != nil || !strings.Contains(out, step[1]) {
			t.Errorf("%s: %v\n%s", step[0], err, out)
		}
		if strings.Contains(step[0], "--note ours") {
			s, err := c.GetSchedule(t.Context(), "a-2")
			assert.NoError(t, err)
			assert.Equal(t, s.Note, "mine", "the note of a schedule that was paused before")
		}
	}
	left, err := c.GetSchedule(t.Context(), "b-1")
	assert.NoError(t, err)
	if len(left.Repeat.Cron) > 0 || left.Note != "z" || left.Task.Labels["team"] != "y" {
		t.Errorf("left is %+v", left)
	}
}

// TestDeadLettersInBulk replays and purges dead letters of a real node, and stops a slow operation.
func TestDeadLettersInBulk(t *testing.T) {
	addr, c, _ := inNamespace(t)
	for i := range 6 {
		task := client.Task{ID: fmt.Sprint("d", i), Queue: "bad", Retry: &client.Retry{MaxAttempts: 1}}
		_, err := c.Schedule(t.Context(), task)
		assert.NoError(t, err)
	}
	var dead client.Settlement
	for len(dead.Nack) < 6 {
		leased, err := c.Lease(t.Context(), "bad", client.Demand{Max: 10, Wait: 10 * time.Second})
		if err != nil || len(leased) == 0 {
			t.Fatal(leased, err)
		}
		for _, task := range leased {
			dead.Nack = append(dead.Nack, client.Nack{Receipt: task.Receipt, Reason: "bad"})
		}
	}
	for _, r := range c.Settle(t.Context(), "bad", dead) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, step := range []struct{ args, want string }{
		{"replay --prefix d1 --yes --wait", "replayed 1"},
		{"purge --queue bad --yes --wait", "purged 5"},
		{"purge --queue bad --dry-run", "0 dead letters pass"},
		{"fire --queue bad --state ready --yes --wait", "fired 1"},
	} {
		out, code := belfry(t, append(slices.Concat([]string{"operation"}, strings.Fields(step.args)), "--addr", addr)...)
		if code != 0 || !strings.Contains(out, step.want) {
			t.Errorf("belfry operation %s: exit %d, want %q\n%s", step.args, code, step.want, out)
		}
	}
	for i := range 50 {
		_, err := c.Schedule(t.Context(), client.Task{ID: fmt.Sprint("s", i), Queue: "slow", Delay: time.Hour})
		assert.NoError(t, err)
	}
	op, err := c.BeginBulk(t.Context(), client.BulkRequest{
		Op: client.BulkCancel, Filter: client.BulkFilter{Queue: "slow"}, PerSecond: 2,
	})
	assert.NoError(t, err)
	out, code := belfry(t, "operation", "stop", op.ID, "--wait", "--addr", addr)
	if code != 0 || !strings.Contains(out, "stopped") {
		t.Errorf("stop: exit %d\n%s", code, out)
	}
	ended, err := c.Operation(t.Context(), op.ID)
	if err != nil || ended.State != client.OperationStopped || ended.Done != *ended.Matched || ended.Done >= 50 {
		t.Fatalf("stopped: %+v, %v", ended, err)
	}
	states := map[client.State]int{}
	for task, err := range c.List(t.Context(), client.Filter{Queue: "slow"}) {
		assert.NoError(t, err)
		states[task.State]++
	}
	if states[client.StateCancelled] != ended.Done || states[client.StateScheduled] != 50-ended.Done {
		t.Errorf("%v after %+v", states, ended)
	}
}
