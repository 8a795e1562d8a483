package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// world is a cluster of nodes a, b, c (replicas) and d (none), as the router on one of them sees it.
type world struct {
	mu     sync.Mutex
	leader map[uint32]string
	down   map[string]bool // nodes that do not answer: certainly not proposed
	log    []string        // "node shard id" of each command that was carried out
	fail   func(node string, cmd *fsmpb.Command) error
	moved  func(shard, slot uint32) error // refuses calls on slots that are not open; nil: all are
	tasks  []*fsmpb.Task                  // sorted by slot and id
	lists  int                            // pages in due order that were asked of shards
	lazy   bool                           // such pages look at few tasks

	forgotten int // groups that an answer about groups lacks
}

// node answers for one node's shards.
type node struct {
	w    *world
	name string
}

func (n node) check(shard uint32, stale bool) error {
	switch leader := n.w.leader[shard]; {
	case n.w.down[n.name]:
		return fmt.Errorf("%w: %s is down", task.ErrNotProposed, n.name)
	case n.name == "d":
		return &task.NotLeaderError{Shard: shard}
	case leader != n.name && !stale:
		return &task.NotLeaderError{Shard: shard, Leader: leader}
	}
	return nil
}

func (n node) Do(_ context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	replies := make([]task.Reply, len(cmds))
	for i, c := range cmds {
		err := n.check(shard, false)
		if err == nil && n.w.fail != nil {
			err = n.w.fail(n.name, c)
		}
		if err == nil && n.w.moved != nil {
			err = n.w.moved(shard, task.Slot(c.Namespace, c.Id))
		}
		if replies[i].Err = err; err == nil {
			n.w.log = append(n.w.log, c.Id)
			replies[i].Result = &fsmpb.Result{Detail: fmt.Sprintf("%s %d %s", n.name, shard, c.Id)}
		}
	}
	return replies
}

func (n node) get(ctx context.Context, shard uint32, c *clusterpb.GetCall) (*fsmpb.Task, error) {
	n.w.mu.Lock()
	err := n.check(shard, c.Stale)
	if err == nil && n.w.moved != nil {
		err = n.w.moved(shard, task.Slot("", c.Id))
	}
	n.w.mu.Unlock()
	if err == nil && n.w.fail != nil {
		if err := n.w.fail(n.name, nil); err != nil {
			<-ctx.Done()
			return nil, err
		}
	}
	return &fsmpb.Task{Id: c.Id, LastError: n.name}, err
}

func (n node) list(_ context.Context, shard uint32, c *clusterpb.ListCall) (*fsmpb.ListPage, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(shard, c.Stale); err != nil {
		return nil, err
	}
	q := c.Query
	if n.w.moved != nil {
		if err := n.w.moved(shard, q.Slot); err != nil {
			return nil, err
		}
	}
	if q.Order == fsmpb.ListOrder_LIST_ORDER_DUE {
		return n.listDue(shard, q)
	}
	page := &fsmpb.ListPage{}
	for _, found := range n.w.tasks {
		slot := task.Slot("", found.Id)
		if slot >= q.End || n.w.moved == nil && shardOf(slot) != shard || slot < q.Slot || slot == q.Slot && found.Id <= q.AfterId {
			continue
		}
		if len(page.Tasks) == int(q.Limit) {
			page.More = true
			break
		}
		page.Tasks = append(page.Tasks, found)
		page.Slot, page.AfterId = slot, found.Id
	}
	return page, nil
}

// listDue lists the tasks of the query's slots, which are sorted by slot and id and not by instants. It looks at few
// tasks at once if the world is lazy.
func (n node) listDue(shard uint32, q *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
	n.w.lists++
	page := &fsmpb.ListPage{}
	sorted := slices.Clone(n.w.tasks)
	slices.SortStableFunc(sorted, func(a, b *fsmpb.Task) int { return cmp.Compare(a.FireAtMs, b.FireAtMs) })
	looked := 0
	for _, found := range sorted {
		slot := task.Slot("", found.Id)
		behind := cmp.Or(cmp.Compare(found.FireAtMs, q.AfterDueMs), cmp.Compare(slot, q.Slot), cmp.Compare(found.Id, q.AfterId)) > 0
		if !behind || !slices.ContainsFunc(q.Slots, func(r *fsmpb.SlotRange) bool { return r.First <= slot && slot < r.End }) {
			continue
		}
		if n.w.moved != nil {
			if err := n.w.moved(shard, slot); err != nil {
				return nil, err
			}
		}
		if looked++; len(page.Tasks) == int(q.Limit) || n.w.lazy && looked == 4 {
			page.More = true
			break
		}
		if page.AfterDueMs, page.Slot, page.AfterId = found.FireAtMs, slot, found.Id; found.LastError != "hidden" {
			page.Tasks, page.DueMs = append(page.Tasks, found), append(page.DueMs, found.FireAtMs)
		}
	}
	return page, nil
}

func (n node) queues(_ context.Context, shard uint32, ask *clusterpb.QueuesCall) (*clusterpb.QueuesReply, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(shard, false); err != nil {
		return nil, err
	}
	counts := []*fsmpb.QueueCounts{{Queue: "all", Ready: 1, Dead: 2, OldestOverdueMs: int64(100 - shard)}}
	if ask.All {
		counts = append(counts, &fsmpb.QueueCounts{Queue: fmt.Sprint("of-", shard), Due_1H: uint64(shard)})
	}
	if shard == 2 {
		counts[0].OldestOverdueMs = 0 // none waits there
	}
	return &clusterpb.QueuesReply{Counts: counts}, nil
}

func (n node) namespaceUse(
	_ context.Context, shard uint32, _ *clusterpb.NamespaceCall,
) (*clusterpb.NamespaceUse, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(shard, false); err != nil {
		return nil, err
	}
	return &clusterpb.NamespaceUse{Pending: uint64(shard), Dead: 1, Bytes: 100, Queues: uint64(shard)}, nil
}

func (n node) outlook(_ context.Context, shard uint32, _ *clusterpb.OutlookCall) (*fsmpb.Outlook, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(shard, false); err != nil {
		return nil, err
	}
	return &fsmpb.Outlook{
		NowMs: 1000 * int64(shard), FirstMs: 4000 * int64(shard%2), Waiting: 10, Beside: 1, Within: []uint64{1, uint64(shard)},
		Steps: []uint64{1, 10, 100},
		Rows:  []*fsmpb.WheelRow{{Level: 1, FirstMs: 4096, Tasks: []uint64{0, 2}}, {Level: shard, FirstMs: 8192, Tasks: []uint64{3}}},
	}, nil
}

func (n node) activity(_ context.Context, shard uint32, c *clusterpb.ActivityCall) (*fsmpb.Activity, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(shard, false); err != nil {
		return nil, err
	}
	a := &fsmpb.Activity{SinceMs: int64(shard)}
	for at := int64(5000); at <= 5000*int64(shard); at += 5000 {
		if at > c.AfterMs {
			a.Steps = append(a.Steps, &fsmpb.ActivityStep{AtMs: at, Fired: 1, Dead: uint64(shard), Late: []uint64{0, 1},
				Held: []uint64{1}})
		}
	}
	return a, nil
}

// members takes three seconds for a transfer, as if attempts were running.
func (n node) members(ctx context.Context, shard uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(shard, false); err != nil {
		return nil, err
	}
	n.w.log = append(n.w.log, fmt.Sprint(n.name, " is asked for ", ask.GetTransfer()))
	select {
	case <-time.After(3 * time.Second):
		return &clusterpb.Membership{Leader: ask.GetTransfer()}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A leader that gives its leadership away may wait for running attempts for longer than a read takes.
func TestTransferHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{leader: map[uint32]string{1: "b"}, down: map[string]bool{}}
		ask := &clusterpb.MembersCall{Change: &clusterpb.MembersCall_Transfer{Transfer: "c"}}
		m, err := w.at("a").Members(t.Context(), 1, ask)
		if err != nil || m.Leader != "c" || len(w.log) != 1 {
			t.Errorf("%v, %v, after %q", m, err, w.log)
		}
	})
}

// askGroups gives the wants, for due times that are the sum of the numbers of the ask.
func (n node) askGroups(_ context.Context, owner uint32, ask *clusterpb.GroupsAsk) (*clusterpb.GroupsAnswer, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(owner, false); err != nil {
		return nil, err
	}
	n.w.log = append(n.w.log, fmt.Sprintf("%s gives groups of %s", n.name, ask.Queue))
	answer := &clusterpb.GroupsAnswer{Epoch: ask.Epoch, Term: ask.Term}
	for i, want := range ask.Wants {
		answer.Given = append(answer.Given, &clusterpb.GroupGiven{
			Group: want.Group + ask.Ended[i], Permits: want.Permits, FirstMs: -int64(ask.Shard) - int64(ask.Number),
		})
	}
	if !ask.Wait {
		answer.Given = nil
	}
	return answer, nil
}

// lookGroups returns a count for each group, with the numbers of the look.
func (n node) lookGroups(
	_ context.Context, id uint32, look *clusterpb.GroupsLook,
) (*clusterpb.GroupsStanding, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(id, false); err != nil {
		return nil, err
	}
	standing := &clusterpb.GroupsStanding{Term: look.Term, Done: look.Epoch, ClearMs: math.MinInt64}
	for i := range look.Groups[n.w.forgotten:] {
		standing.Groups = append(standing.Groups, &clusterpb.GroupCount{
			UnderWay: uint32(i), Retrying: uint32(i) + 1, Waiting: i == 1, Priority: 5, FirstMs: task.BegunMs,
		})
	}
	return standing, nil
}

// lend lends for as many microseconds as the sum of the numbers of the ask.
func (n node) lend(_ context.Context, owner uint32, ask *clusterpb.LendCall) (*clusterpb.Loan, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if err := n.check(owner, false); err != nil {
		return nil, err
	}
	n.w.log = append(n.w.log, fmt.Sprintf("%s lends %s", n.name, ask.Queue))
	sum := uint64(ask.Borrower) + ask.Term + ask.Round + uint64(ask.InFlight+ask.Unused)
	return &clusterpb.Loan{Permits: ask.Want, LifeUs: int64(sum), RetryAfterUs: 1000}, nil
}

// table returns the handlers of the node.
func (n node) table() *calls.Table {
	return calls.NewTable(n.Do, calls.On(n.get), calls.On(n.list), calls.On(n.queues), calls.On(n.namespaceUse),
		calls.On(n.outlook), calls.On(n.activity), calls.On(n.members), calls.On(n.askGroups), calls.On(n.lookGroups),
		calls.On(n.lend))
}

const shardCount = 4

func shardOf(slot uint32) uint32 { return slot/(task.Slots/shardCount) + 1 }

func newWorld() *world {
	w := &world{leader: make(map[uint32]string), down: make(map[string]bool)}
	for shard := range uint32(shardCount) {
		w.leader[shard+1] = "a"
	}
	return w
}

func (w *world) state() *clusterpb.ControlState {
	s := &clusterpb.ControlState{ClusterId: "c"}
	for i := range uint32(shardCount) {
		size := uint32(task.Slots / shardCount)
		s.Slots = append(s.Slots, &clusterpb.SlotRange{
			First: i * size, End: (i + 1) * size, Shard: i + 1, Epoch: uint64(20 + i),
		})
		s.Shards = append(s.Shards, &clusterpb.Shard{Id: i + 1, Replicas: []string{"a", "b", "c"}, Preferred: "a"})
	}
	return s
}

// known returns the state of the control group that a node knows.
type known func() *clusterpb.ControlState

func (k known) State() *clusterpb.ControlState { return k() }

// nodes are the nodes of a world, which all seem alive.
type nodes struct{ w *world }

func (n nodes) At(name string) calls.Node { return node{n.w, name}.table() }

func (nodes) Alive(string) bool { return true }

// at returns the router of a node that knows every leader.
func (w *world) at(name string) *Router {
	state := w.state()
	r := New(Config{
		Self: name, Control: known(func() *clusterpb.ControlState { return state }), Nodes: nodes{w},
		Leaders: calls.NewBeliefs(),
	})
	for shard, leader := range w.leader {
		r.cfg.Leaders.Note(shard, 1, leader)
	}
	return r
}

func (r *Router) counts() [3]float64 {
	m := r.metrics
	return [3]float64{testutil.ToFloat64(m.local), testutil.ToFloat64(m.hops), testutil.ToFloat64(m.retries)}
}

// id returns a task id in the shard.
func id(shard uint32, n int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("t%d-%d", n, i); shardOf(task.Slot("", name)) == shard {
			return name
		}
	}
}

func cmds(ids ...string) []*fsmpb.Command {
	var c []*fsmpb.Command
	for _, id := range ids {
		c = append(c, &fsmpb.Command{Id: id})
	}
	return c
}

func TestHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for name, want := range map[string][3]float64{"a": {1, 0, 0}, "b": {0, 1, 0}, "d": {0, 1, 0}} {
			r := w.at(name)
			reply := r.Do(t.Context(), cmds(id(2, 1)))[0]
			if reply.Err != nil || reply.Result.Detail != "a 2 "+id(2, 1) {
				t.Errorf("at %s: %v", name, reply)
			}
			assert.Equal(t, r.counts(), want, "at %s: local, hops, retries", name)
		}
	})
}

func TestStaleHintCostsOneRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		w.leader[2] = "c"
		began := time.Now()
		if reply := r.Do(t.Context(), cmds(id(2, 1)))[0]; reply.Err != nil || reply.Result.Detail[0] != 'c' {
			t.Fatalf("%v", reply)
		}
		if got := r.counts(); got != [3]float64{0, 2, 1} {
			t.Errorf("local, hops, retries %v after %v", got, time.Since(began))
		}
	})
}

func TestWithoutAnyHintAReplicaIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.leader[2] = "b"
		r := w.at("d")
		r.cfg.Leaders = calls.NewBeliefs()
		if reply := r.Do(t.Context(), cmds(id(2, 1)))[0]; reply.Err != nil {
			t.Fatalf("%v", reply)
		}
		if got := r.counts(); got != [3]float64{0, 2, 1} { // the preferred replica, which knows the leader
			t.Errorf("local, hops, retries %v", got)
		}
	})
}

func TestAnswersAreInOrderOverShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var ids []string
		for i := range 100 {
			ids = append(ids, id(uint32(i%shardCount)+1, i))
		}
		for i, reply := range w.at("b").Do(t.Context(), cmds(ids...)) {
			if want := fmt.Sprintf("a %d %s", i%shardCount+1, ids[i]); reply.Err != nil || reply.Result.Detail != want {
				t.Fatalf("%d: %v, want %s", i, reply, want)
			}
		}
	})
}

func TestCallWaitsForAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		w.leader[2], w.down["a"] = "", true
		time.AfterFunc(700*time.Millisecond, func() {
			w.mu.Lock()
			w.leader[2] = "b"
			w.mu.Unlock()
			r.cfg.Leaders.Note(2, 2, "b")
		})
		began := time.Now()
		reply := r.Do(t.Context(), cmds(id(2, 1)))[0]
		if took := time.Since(began); reply.Err != nil || took > 701*time.Millisecond {
			t.Errorf("%v after %v", reply, took)
		}
		if retries := r.counts()[2]; retries > 30 {
			t.Errorf("%v retries", retries)
		}
	})
}

func TestCallGivesUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.leader[2] = ""
		r := w.at("b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Do(ctx, cmds(id(2, 1)))[0].Err
		if !errors.Is(err, task.ErrNotProposed) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, task.ErrUnknown) {
			t.Errorf("command: %v", err)
		}
		if _, err := r.Get(ctx, "", id(2, 1), false); !errors.Is(err, task.ErrNotProposed) {
			t.Errorf("read: %v", err)
		}
		began := time.Now()
		if err := r.Do(t.Context(), cmds(id(2, 1)))[0].Err; err == nil || time.Since(began) != r.cfg.Patience {
			t.Errorf("without a deadline: %v after %v", err, time.Since(began))
		}
	})
}

func TestUnknownAndOverloadedAreFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, final := range []error{task.ErrUnknown, task.ErrOverloaded} {
			w := newWorld()
			asked := 0
			w.fail = func(string, *fsmpb.Command) error { asked++; return final }
			if err := w.at("b").Do(t.Context(), cmds(id(2, 1)))[0].Err; !errors.Is(err, final) || asked != 1 {
				t.Errorf("%v after %d times", err, asked)
			}
		}
	})
}

// Only commands that may be repeated are, and none overtakes an earlier command about the same id.
func TestRetryKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y, z := id(2, 1), id(2, 2), id(2, 3)
		w := newWorld()
		first := map[string]int{x: 1, y: 0, z: 2} // how many of its commands are not proposed at first
		w.fail = func(_ string, c *fsmpb.Command) error {
			if first[c.Id] > 0 {
				first[c.Id]--
				return task.ErrNotProposed
			}
			return nil
		}
		replies := w.at("b").Do(t.Context(), cmds(x, x, y, z, z))
		// The first x fails and the second does not. A new try of the first would overwrite the second.
		var failed []int
		for i, r := range replies {
			if r.Err != nil {
				failed = append(failed, i)
			}
		}
		if !slices.Equal(failed, []int{0}) || !errors.Is(replies[0].Err, task.ErrNotProposed) {
			t.Errorf("failed %v: %v", failed, replies)
		}
		assert.EqualSlices(t, w.log, []string{x, y, z, z}, "carried out")
	})
}

func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, c := range []struct {
			at    string
			stale bool
			want  string
		}{{"a", false, "a"}, {"b", false, "a"}, {"d", false, "a"}, {"b", true, "b"}, {"d", true, "a"}} {
			task, err := w.at(c.at).Get(t.Context(), "", id(2, 1), c.stale)
			if err != nil || task.LastError != c.want {
				t.Errorf("%+v: answered by %v, %v", c, task, err)
			}
		}
		w.down["a"] = true
		if task, err := w.at("d").Get(t.Context(), "", id(2, 1), true); err != nil || task.LastError == "a" {
			t.Errorf("stale, a down: %v, %v", task, err)
		}
	})
}

func TestHangingReadIsAskedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		w.fail = func(name string, _ *fsmpb.Command) error {
			if name == "a" {
				return task.ErrUnknown
			}
			return nil
		}
		time.AfterFunc(500*time.Millisecond, func() {
			w.mu.Lock()
			w.leader[2] = "b"
			w.mu.Unlock()
			r.cfg.Leaders.Note(2, 2, "b")
		})
		task, err := r.Get(t.Context(), "", id(2, 1), false)
		if err != nil || task.LastError != "b" {
			t.Errorf("%v, %v", task, err)
		}
	})
}

func TestListWalksAllShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 300 {
			w.tasks = append(w.tasks, &fsmpb.Task{Id: fmt.Sprint("task", i)})
		}
		slices.SortFunc(w.tasks, func(a, b *fsmpb.Task) int {
			if d := int(task.Slot("", a.Id)) - int(task.Slot("", b.Id)); d != 0 {
				return d
			}
			return slices.Compare([]byte(a.Id), []byte(b.Id))
		})
		for _, limit := range []uint32{1, 7, 100, 300, 1000} {
			r := w.at("d")
			var seen []*fsmpb.Task
			q := &fsmpb.ListQuery{Limit: limit}
			for pages := 0; ; pages++ {
				page, err := r.List(t.Context(), q, false)
				if err != nil || len(page.Tasks) > int(limit) || pages > 310 {
					t.Fatalf("page %d of %d: %v", pages, limit, err)
				}
				seen = append(seen, page.Tasks...)
				if !page.More {
					break
				}
				q.Slot, q.AfterId = page.Slot, page.AfterId
			}
			if !slices.Equal(seen, w.tasks) {
				t.Errorf("limit %d: %d tasks seen, or in another order", limit, len(seen))
			}
		}
	})
}

// Pages in due order merge the shards, also if a shard answers short pages or hides most tasks behind a filter, and ask
// shards no more often than a page may cost.
func TestListInDueOrderMergesShards(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		w.lazy = rapid.Bool().Draw(rt, "lazy")
		spread := rapid.SampledFrom([]int64{1, 10, 1000}).Draw(rt, "spread")
		for i := range rapid.IntRange(0, 200).Draw(rt, "tasks") {
			made := &fsmpb.Task{Id: fmt.Sprint("task", i), FireAtMs: rapid.Int64Range(1, spread).Draw(rt, "at")}
			if rapid.IntRange(0, 3).Draw(rt, "filter") == 0 {
				made.LastError = "hidden"
			}
			w.tasks = append(w.tasks, made)
		}
		slices.SortFunc(w.tasks, func(a, b *fsmpb.Task) int {
			return cmp.Or(cmp.Compare(task.Slot("", a.Id), task.Slot("", b.Id)), cmp.Compare(a.Id, b.Id))
		})
		want := slices.DeleteFunc(slices.Clone(w.tasks), func(t *fsmpb.Task) bool { return t.LastError == "hidden" })
		slices.SortStableFunc(want, func(a, b *fsmpb.Task) int { return cmp.Compare(a.FireAtMs, b.FireAtMs) })
		r, seen := w.at("d"), []*fsmpb.Task(nil)
		q := &fsmpb.ListQuery{Order: fsmpb.ListOrder_LIST_ORDER_DUE, Limit: rapid.Uint32Range(1, 300).Draw(rt, "limit")}
		for more := true; more; {
			w.lists = 0
			page, err := r.List(t.Context(), q, false)
			if err != nil || len(page.Tasks) > int(q.Limit) || w.lists > shardCount+asksAgain {
				rt.Fatalf("%d of %d tasks, %d asks: %v", len(page.GetTasks()), q.Limit, w.lists, err)
			}
			if more = page.More; more && q.AfterDueMs == page.AfterDueMs && q.Slot == page.Slot && q.AfterId == page.AfterId {
				rt.Fatalf("the page behind %v goes on where it began", q)
			}
			seen = append(seen, page.Tasks...)
			q.AfterDueMs, q.Slot, q.AfterId = page.AfterDueMs, page.Slot, page.AfterId
		}
		assert.EqualSlices(rt, seen, want, "seen")
	})
}

func TestBeforeThereIsAMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("a")
		r.cfg.Control = known(func() *clusterpb.ControlState { return &clusterpb.ControlState{} })
		assert.ErrorIs(t, r.Do(t.Context(), cmds("x"))[0].Err, task.ErrNotProposed)
		_, err := r.Get(t.Context(), "", "x", false)
		assert.ErrorIs(t, err, task.ErrNotProposed)
		_, err = r.List(t.Context(), &fsmpb.ListQuery{}, false)
		assert.ErrorIs(t, err, task.ErrNotProposed)
	})
}

func TestLeadersBelieveLaterTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := calls.NewBeliefs()
		_, changed := l.Watch(1)
		for _, c := range []struct {
			term   uint64
			leader string
			news   bool
			now    string
		}{
			{2, "", true, ""}, {2, "a", true, "a"}, {2, "a", false, "a"}, {2, "", false, "a"}, {1, "b", false, "a"},
			{3, "", true, ""}, {3, "b", true, "b"}, {2, "a", false, "b"},
		} {
			before := l.News()
			if news := l.Note(1, c.term, c.leader); news != c.news || (l.News() != before) != c.news {
				t.Errorf("%+v: news %v, number %d after %d", c, news, l.News(), before)
			}
			if now := l.Leader(1); now != c.now {
				t.Errorf("%+v: now %q", c, now)
			}
		}
		select {
		case <-changed:
		default:
			t.Error("the watcher was not told")
		}
		if all := l.All(); len(all) != 1 || all[0].Leader != "b" || all[0].Term != 3 {
			t.Errorf("all: %v", all)
		}
	})
}
