package calls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/shard"
)

// local answers each call by its arguments. If err is not nil, it refuses every call with err.
type local struct{ err error }

func (l local) Do(_ context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	if l.err != nil {
		return Refuse(len(cmds), l.err)
	}
	var replies []task.Reply
	for _, c := range cmds {
		replies = append(replies, task.Reply{Result: &fsmpb.Result{Detail: fmt.Sprint(id, " ", c.Id)}})
	}
	return replies
}

func (l local) Get(_ context.Context, id uint32, namespace, name string, stale bool) (*fsmpb.Task, error) {
	if name == "none" {
		return nil, l.err
	}
	return &fsmpb.Task{Shard: id, Namespace: namespace, Id: name, LastError: fmt.Sprint(stale)}, l.err
}

func (l local) List(_ context.Context, id uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	return &fsmpb.ListPage{Slot: id, AfterId: q.Prefix, More: stale}, l.err
}

func (l local) Queues(_ context.Context, id uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	return []*fsmpb.QueueCounts{{Namespace: ask.Namespace, Queue: ask.Queue, Ready: uint64(id)}}, l.err
}

func (l local) NamespaceUse(_ context.Context, id uint32, namespace string) (task.NamespaceUse, error) {
	return task.NamespaceUse{Namespace: namespace, Pending: uint64(id), Dead: 20, Bytes: 300, Queues: 4000}, l.err
}

func (l local) Outlook(_ context.Context, id uint32) (*fsmpb.Outlook, error) {
	return &fsmpb.Outlook{Waiting: uint64(id)}, l.err
}

func (l local) Activity(_ context.Context, id uint32, afterMs int64) (*fsmpb.Activity, error) {
	return &fsmpb.Activity{SinceMs: afterMs + int64(id)}, l.err
}

func (l local) Quota(_ context.Context, id uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	return &clusterpb.QuotaReply{Tokens: id + call.GetDraw().GetWant()}, l.err
}

// Lend lends for as many microseconds as the sum of the arguments.
func (l local) Lend(_ context.Context, owner uint32, ask shard.Borrow) (shard.Loan, error) {
	sum := uint64(owner) + uint64(ask.Shard) + ask.Term + ask.Round + uint64(ask.InFlight+ask.Unused)
	return shard.Loan{Permits: ask.Want, Life: time.Duration(sum) * time.Microsecond, RetryAfter: time.Millisecond}, l.err
}

// AskGroups gives the wants, for due times that are the sum of the numbers of the ask.
func (l local) AskGroups(_ context.Context, owner uint32, ask shard.GroupsAsk) (shard.GroupsAnswer, error) {
	answer := shard.GroupsAnswer{Owner: shard.GroupsOwner{Epoch: ask.Epoch, Term: ask.Term}}
	for _, w := range ask.Wants {
		given := shard.GroupsGiven{Group: w.Group + ask.Ended[0], Permits: w.Permits}
		given.FirstMs = -int64(owner) - int64(ask.Shard) - int64(ask.Number)
		answer.Given = append(answer.Given, given)
	}
	if !ask.Wait {
		answer.Given = nil
	}
	return answer, l.err
}

// LookGroups returns a count for each group, with the numbers of the look.
func (l local) LookGroups(_ context.Context, id uint32, look shard.GroupsLook) (shard.GroupsStanding, error) {
	standing := shard.GroupsStanding{Shard: id, Term: look.Owner.Term, Done: look.Owner.Epoch, ClearMs: math.MinInt64}
	for i := range look.Groups {
		standing.Groups = append(standing.Groups, shard.GroupsCount{
			UnderWay: i, Retrying: i + 1, Waiting: i == 1, Priority: 5, FirstMs: task.BegunMs,
		})
	}
	return standing, l.err
}

// Members returns a member named after the change.
func (l local) Members(_ context.Context, id uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	if l.err != nil {
		return nil, l.err
	}
	return &clusterpb.Membership{
		Term: uint64(id), Members: []*clusterpb.Member{{Node: ask.GetAddVoter(), Lag: ask.Seen.GetTerm()}},
	}, nil
}

// ReadSlots returns a batch of the arguments.
func (l local) ReadSlots(_ context.Context, id uint32, ask *clusterpb.ReadSlotsCall) (*clusterpb.SlotsBatch, error) {
	return &clusterpb.SlotsBatch{Session: ask.Move + ask.Session + ask.Batch, Left: id}, l.err
}

// PullSlots returns a progress of the arguments.
func (l local) PullSlots(_ context.Context, id uint32, ask *clusterpb.PullSlotsCall) (*clusterpb.SlotsProgress, error) {
	return &clusterpb.SlotsProgress{Tasks: ask.Move + uint64(ask.From), Left: id}, l.err
}

func (l local) Change(_ context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	return &clusterpb.ControlChanged{
		Existed: change.GetEntry().GetDeleteQueue().GetQueue() == "q", Conflict: change.Preview, Impossible: change.Token,
	}, l.err
}

// remote returns a Remote that exchanges encoded messages with n. edit changes the replies; nil: they stay as they are.
func remote(t *testing.T, n Node, edit func(*clusterpb.CallReply)) Remote {
	return Remote{Node: "b", Ask: func(ctx context.Context, call *clusterpb.Call, _ bool) (*clusterpb.CallReply, error) {
		call.Number = 7
		got, reply := &clusterpb.Call{}, &clusterpb.CallReply{}
		resend(t, call, got)
		answer := Answer(ctx, n, got)
		if edit != nil {
			edit(answer)
		}
		if resend(t, answer, reply); reply.Number != 7 {
			t.Errorf("call 7 was answered with number %d", reply.Number)
		}
		return reply, nil
	}}
}

func resend(t *testing.T, sent, got proto.Message) {
	data, err := proto.Marshal(sent)
	if err == nil {
		err = proto.Unmarshal(data, got)
	}
	if err != nil {
		t.Error(err)
	}
}

func deletion(queue string) *clusterpb.ControlChange {
	return &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteQueue{DeleteQueue: &clusterpb.DeleteQueue{Queue: queue}},
	}}
}

func TestCallsArriveWhole(t *testing.T) {
	r, ctx := remote(t, local{}, nil), t.Context()
	replies := r.Do(ctx, 3, []*fsmpb.Command{{Id: "x"}, {Id: "y"}})
	if len(replies) != 2 || replies[0].Result.GetDetail() != "3 x" || replies[1].Result.GetDetail() != "3 y" {
		t.Errorf("Do: %v", replies)
	}
	got, err := r.Get(ctx, 3, "n", "x", true)
	if err != nil || got.Shard != 3 || got.Namespace != "n" || got.Id != "x" || got.LastError != "true" {
		t.Errorf("Get: %v, %v", got, err)
	}
	if got, err := r.Get(ctx, 3, "n", "none", true); err != nil || got != nil {
		t.Errorf("Get of a task that there is not: %v, %v", got, err)
	}
	page, err := r.List(ctx, 3, &fsmpb.ListQuery{Prefix: "p"}, true)
	if err != nil || page.Slot != 3 || page.AfterId != "p" || !page.More {
		t.Errorf("List: %v, %v", page, err)
	}
	counts, err := r.Queues(ctx, 3, &clusterpb.QueuesCall{Namespace: "n", Queue: "q"})
	if err != nil || len(counts) != 1 || counts[0].Namespace != "n" || counts[0].Queue != "q" || counts[0].Ready != 3 {
		t.Errorf("Queues: %v, %v", counts, err)
	}
	use, err := r.NamespaceUse(ctx, 3, "n")
	if want := (task.NamespaceUse{Namespace: "n", Pending: 3, Dead: 20, Bytes: 300, Queues: 4000}); err != nil ||
		use != want {
		t.Errorf("NamespaceUse: %v, %v, want %v", use, err, want)
	}
	drawn, err := r.Quota(ctx, 3, &clusterpb.QuotaCall{
		Op: &clusterpb.QuotaCall_Draw{Draw: &clusterpb.DrawCall{Want: 40}},
	})
	if err != nil || drawn.Tokens != 43 {
		t.Errorf("Quota: %v, %v", drawn, err)
	}
	if o, err := r.Outlook(ctx, 3); err != nil || o.Waiting != 3 {
		t.Errorf("Outlook: %v, %v", o, err)
	}
	if a, err := r.Activity(ctx, 3, 40); err != nil || a.SinceMs != 43 {
		t.Errorf("Activity: %v, %v", a, err)
	}
	ask := shard.Borrow{
		Queue: "q", Shard: 1, Borrow: lend.Borrow{Term: 10, Round: 100, InFlight: 1000, Unused: 10_000, Want: 5},
	}
	loan, err := r.Lend(ctx, 100_000, ask)
	if want := (shard.Loan{Permits: 5, Life: 111_111 * time.Microsecond, RetryAfter: time.Millisecond}); err != nil ||
		loan != want {
		t.Errorf("Lend: %v, %v, want %v", loan, err, want)
	}
	groups := shard.GroupsAsk{
		Namespace: "ns", Queue: "q", Shard: 1, Term: 10, Number: 100, Wait: true, Epoch: 7,
		Wants: []shard.GroupsWant{{Group: "g", Permits: 2}}, Ended: []string{"h"},
	}
	given, err := r.AskGroups(ctx, 1000, groups)
	want := shard.GroupsAnswer{
		Owner: shard.GroupsOwner{Epoch: 7, Term: 10}, Given: []shard.GroupsGiven{{Group: "gh", Permits: 2, FirstMs: -1101}},
	}
	if diff := cmp.Diff(want, given); err != nil || diff != "" {
		t.Errorf("AskGroups: %v\n%s", err, diff)
	}
	look := shard.GroupsLook{Owner: want.Owner, Namespace: "ns", Queue: "q", Groups: []string{"g", "h"}}
	stands, err := r.LookGroups(ctx, 3, look)
	local, _ := local{}.LookGroups(ctx, 3, look)
	if diff := cmp.Diff(local, stands); err != nil || diff != "" {
		t.Errorf("LookGroups: %v\n%s", err, diff)
	}
	batch, err := r.ReadSlots(ctx, 3, &clusterpb.ReadSlotsCall{Move: 1, Session: 2, Batch: 4})
	if err != nil || batch.Session != 7 || batch.Left != 3 {
		t.Errorf("ReadSlots: %v, %v", batch, err)
	}
	progress, err := r.PullSlots(ctx, 3, &clusterpb.PullSlotsCall{Move: 1, From: 2})
	if err != nil || progress.Tasks != 3 || progress.Left != 3 {
		t.Errorf("PullSlots: %v, %v", progress, err)
	}
	members, err := r.Members(ctx, 3, &clusterpb.MembersCall{
		Seen: &clusterpb.Membership{Term: 5}, Change: &clusterpb.MembersCall_AddVoter{AddVoter: "d"},
	})
	if err != nil || members.Term != 3 || members.Members[0].Node != "d" || members.Members[0].Lag != 5 {
		t.Errorf("Members: %v, %v", members, err)
	}
	change := deletion("q")
	change.Preview, change.Token = true, "t"
	changed, err := r.Change(ctx, change)
	if err != nil || !changed.Existed || !changed.Conflict || changed.Impossible != "t" {
		t.Errorf("Change: %v, %v", changed, err)
	}
}

// each makes every kind of call, and returns the errors by name.
func each(ctx context.Context, n Node) map[string]error {
	_, get := n.Get(ctx, 3, "", "x", false)
	_, list := n.List(ctx, 3, &fsmpb.ListQuery{}, false)
	_, queues := n.Queues(ctx, 3, &clusterpb.QueuesCall{})
	_, step := n.Quota(ctx, 3, &clusterpb.QuotaCall{})
	_, use := n.NamespaceUse(ctx, 3, "n")
	_, outlook := n.Outlook(ctx, 3)
	_, activity := n.Activity(ctx, 3, 0)
	_, loan := n.Lend(ctx, 3, shard.Borrow{})
	_, ask := n.AskGroups(ctx, 3, shard.GroupsAsk{})
	_, look := n.LookGroups(ctx, 3, shard.GroupsLook{})
	_, members := n.Members(ctx, 3, &clusterpb.MembersCall{})
	_, batch := n.ReadSlots(ctx, 3, &clusterpb.ReadSlotsCall{})
	_, progress := n.PullSlots(ctx, 3, &clusterpb.PullSlotsCall{})
	_, change := n.Change(ctx, deletion("x"))
	return map[string]error{
		"Do": n.Do(ctx, 3, []*fsmpb.Command{{Id: "x"}})[0].Err, "Get": get, "List": list, "Queues": queues, "Lend": loan,
		"ReadSlots": batch, "PullSlots": progress, "Members": members, "Change": change, "NamespaceUse": use, "Quota": step,
		"AskGroups": ask, "LookGroups": look, "Outlook": outlook, "Activity": activity,
	}
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	for name, c := range map[string]struct{ made, want error }{
		"not proposed": {fmt.Errorf("x: %w", task.ErrNotProposed), task.ErrNotProposed},
		"unknown":      {task.ErrUnknown, task.ErrUnknown},
		"unfit":        {fmt.Errorf("x: %w", raftgroup.ErrUnfit), raftgroup.ErrUnfit},
		"overloaded":   {task.ErrOverloaded, task.ErrOverloaded},
		"no room":      {task.ErrNoRoom, task.ErrNoRoom},
		"no memory":    {fmt.Errorf("x: %w", &task.MemoryError{Node: "n1", Limit: "1GiB"}), task.ErrNoMemory},
		"deadline":     {context.DeadlineExceeded, task.ErrUnknown},
		"move lost":    {fmt.Errorf("x: %w", shard.ErrMoveLost), shard.ErrMoveLost},
		"move refused": {fmt.Errorf("x: %w", shard.ErrMoveRefused), shard.ErrMoveRefused},
		"moved":        {&task.MovedError{Shard: 3}, task.ErrNotProposed},
		"not leader":   {&task.NotLeaderError{Shard: 3, Leader: "c"}, task.ErrNotProposed},
	} {
		t.Run(name, func(t *testing.T) {
			r := remote(t, local{c.made}, nil)
			for call, err := range each(t.Context(), r) {
				if !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", call, err, c.want)
				}
				var memory *task.MemoryError
				if errors.As(c.made, &memory) && err.Error() != memory.Error() {
					t.Errorf("%s: whose memory it is: %v", call, err)
				}
			}
			reply := r.Do(t.Context(), 3, []*fsmpb.Command{{Id: "x"}})[0]
			if reply.Result != nil {
				t.Errorf("a refused command has the result %v", reply.Result)
			}
			var notLeader *task.NotLeaderError
			if errors.As(c.made, &notLeader) &&
				(!errors.As(reply.Err, &notLeader) || notLeader.Leader != "c" || notLeader.Shard != 3) {
				t.Errorf("the leader's name: %v", reply.Err)
			}
		})
	}
}

func TestFullQueuesTravel(t *testing.T) {
	made := &task.QueuesFullError{Limit: "4096"}
	_, err := remote(t, local{fmt.Errorf("refused: %w", made)}, nil).Change(t.Context(), deletion("x"))
	if got, ok := err.(*task.QueuesFullError); !ok || *got != *made {
		t.Errorf("it came as %v", err)
	}
}

func TestFieldErrorsTravel(t *testing.T) {
	made := &task.FieldError{Field: "target.url", Detail: "is too long", Limit: "2048 bytes"}
	_, err := remote(t, local{fmt.Errorf("refused: %w", made)}, nil).Change(t.Context(), deletion("x"))
	if got, ok := err.(*task.FieldError); !ok || *got != *made {
		t.Errorf("%v became %v", made, err)
	}
}

// The error of a whole call is the error of each of its commands.
func TestErrorOfTheWholeCall(t *testing.T) {
	made := EncodeError(task.ErrNotProposed)
	r := remote(t, local{}, func(reply *clusterpb.CallReply) { reply.Commands, reply.Error = nil, made })
	for i, reply := range r.Do(t.Context(), 3, []*fsmpb.Command{{Id: "x"}, {Id: "y"}}) {
		if !errors.Is(reply.Err, task.ErrNotProposed) {
			t.Errorf("command %d: %v", i, reply.Err)
		}
	}
}

// A command whose answer is missing may have been carried out.
func TestMissingAnswersAreUnknown(t *testing.T) {
	for name, edit := range map[string]func(*clusterpb.CallReply){
		"too few":   func(r *clusterpb.CallReply) { r.Commands = r.Commands[:1] },
		"no result": func(r *clusterpb.CallReply) { r.Commands[1].Result = nil },
	} {
		replies := remote(t, local{}, edit).Do(t.Context(), 3, []*fsmpb.Command{{Id: "x"}, {Id: "y"}})
		if len(replies) != 2 || !errors.Is(replies[1].Err, task.ErrUnknown) {
			t.Errorf("%s: %v", name, replies)
		}
	}
}

func TestUnknownCallsAreNotProposed(t *testing.T) {
	reply := Answer(t.Context(), local{}, &clusterpb.Call{Number: 7})
	if err := DecodeError(reply.Error, 3, "b"); !errors.Is(err, task.ErrNotProposed) || reply.Number != 7 {
		t.Errorf("call %d: %v", reply.Number, err)
	}
}

func TestMovedErrorsTravel(t *testing.T) {
	for _, made := range []task.MovedError{{Shard: 7, Epoch: 9}, {Shard: 8, Epoch: 2, Moving: true}} {
		for call, err := range each(t.Context(), remote(t, local{fmt.Errorf("refused: %w", &made)}, nil)) {
			var got *task.MovedError
			if !errors.As(err, &got) || *got != made {
				t.Errorf("%s: %v became %v", call, made, err)
			}
		}
	}
}

// collector keeps the names of asks, as the owner of a queue does.
type collector struct {
	local
	names []string
}

func (c *collector) Lend(_ context.Context, _ uint32, ask shard.Borrow) (shard.Loan, error) {
	c.names = append(c.names, ask.Namespace, ask.Queue)
	return shard.Loan{}, nil
}

func (c *collector) AskGroups(_ context.Context, _ uint32, ask shard.GroupsAsk) (shard.GroupsAnswer, error) {
	c.names = append(c.names, ask.Namespace, ask.Queue, ask.Ended[0], ask.Wants[0].Group)
	return shard.GroupsAnswer{}, nil
}

func (c *collector) LookGroups(_ context.Context, _ uint32, look shard.GroupsLook) (shard.GroupsStanding, error) {
	c.names = append(c.names, look.Namespace, look.Queue, look.Groups[0])
	return shard.GroupsStanding{}, nil
}

// TestKeptNamesLetGoOfTheirMessage checks that names which a node keeps do not point into the message in which they
// came: they would keep a whole batch of calls in memory.
func TestKeptNamesLetGoOfTheirMessage(t *testing.T) {
	sent := &clusterpb.ForwardRequest{Calls: []*clusterpb.Call{
		{Op: &clusterpb.Call_Lend{Lend: &clusterpb.LendCall{Namespace: "n", Queue: "q"}}},
		{Op: &clusterpb.Call_AskGroups{AskGroups: &clusterpb.GroupsAsk{
			Namespace: "n", Queue: "q", Ended: []string{"g"}, Wants: []*clusterpb.GroupWant{{Group: "g"}},
		}}},
		{Op: &clusterpb.Call_LookGroups{LookGroups: &clusterpb.GroupsLook{
			Namespace: "n", Queue: "q", Groups: []string{"g"},
		}}},
	}}
	data, err := sent.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	received := &clusterpb.ForwardRequest{}
	if err := received.UnmarshalVTUnsafe(data); err != nil {
		t.Fatal(err)
	}
	c := &collector{}
	for _, call := range received.Calls {
		if reply := Answer(t.Context(), c, call); reply.Error != nil {
			t.Fatal(reply.Error)
		}
	}
	refusal, err := EncodeError(&task.NotLeaderError{Leader: "l"}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	refused := &clusterpb.CallError{}
	if err := refused.UnmarshalVTUnsafe(refusal); err != nil {
		t.Fatal(err)
	}
	var notLeader *task.NotLeaderError
	if !errors.As(DecodeError(refused, 1, "b"), &notLeader) {
		t.Fatal(refused)
	}
	clear(data)
	clear(refusal)
	if diff := cmp.Diff(append(c.names, notLeader.Leader), []string{"n", "q", "n", "q", "g", "g", "n", "q", "g", "l"}); diff != "" {
		t.Error(diff)
	}
}
