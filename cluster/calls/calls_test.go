package calls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
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

func (l local) get(_ context.Context, id uint32, c *clusterpb.GetCall) (*fsmpb.Task, error) {
	if c.Id == "none" {
		return nil, l.err
	}
	return &fsmpb.Task{Shard: id, Namespace: c.Namespace, Id: c.Id, LastError: fmt.Sprint(c.Stale)}, l.err
}

func (l local) outlook(_ context.Context, id uint32, _ *clusterpb.OutlookCall) (*fsmpb.Outlook, error) {
	return &fsmpb.Outlook{Waiting: uint64(id)}, l.err
}

func (l local) change(_ context.Context, _ uint32, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	return &clusterpb.ControlChanged{
		Existed: c.GetEntry().GetDeleteQueue().GetQueue() == "q", Conflict: c.Preview, Impossible: c.Token,
	}, l.err
}

func (l local) table() *Table { return NewTable(l.Do, On(l.get), On(l.outlook), On(l.change)) }

// remote returns a Remote that exchanges encoded messages with a table. edit changes the replies; nil: they stay as
// they are.
func remote(t *testing.T, table *Table, edit func(*clusterpb.CallReply)) Remote {
	send := func(ctx context.Context, call *clusterpb.Call, _ string) (*clusterpb.CallReply, error) {
		call.Number = 7
		got, reply := &clusterpb.Call{}, &clusterpb.CallReply{}
		resend(t, call, got)
		answer := table.Answer(ctx, got)
		if edit != nil {
			edit(answer)
		}
		resend(t, answer, reply)
		assert.Equal(t, reply.Number, 7, "call 7 was answered with number")
		return reply, nil
	}
	return Remote{Node: "b", Send: send}
}

func resend(t *testing.T, sent, got frequent) {
	data := make([]byte, sent.SizeVT())
	_, err := sent.MarshalToSizedBufferVT(data)
	if err == nil {
		err = got.UnmarshalVTUnsafe(data)
	}
	assert.Equal(t, err, nil)
}

func deletion(queue string) *clusterpb.ControlChange {
	return &clusterpb.ControlChange{Entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteQueue{DeleteQueue: &clusterpb.DeleteQueue{Queue: queue}},
	}}
}

// TestCallsArriveWhole checks the calls of this node and of another one: messages with generated code and without, and
// an answer that there is none.
func TestCallsArriveWhole(t *testing.T) {
	here, ctx := local{}.table(), t.Context()
	for name, n := range map[string]Node{"this node": here, "another node": remote(t, here, nil)} {
		replies := n.Do(ctx, 3, []*fsmpb.Command{{Id: "x"}, {Id: "y"}})
		if len(replies) != 2 || replies[0].Result.GetDetail() != "3 x" || replies[1].Result.GetDetail() != "3 y" {
			t.Errorf("%s: Do: %v", name, replies)
		}
		got, err := Ask[*fsmpb.Task](ctx, n, 3, &clusterpb.GetCall{Namespace: "n", Id: "x", Stale: true})
		if err != nil || got.Shard != 3 || got.Namespace != "n" || got.Id != "x" || got.LastError != "true" {
			t.Errorf("%s: a task: %v, %v", name, got, err)
		}
		got, err = Ask[*fsmpb.Task](ctx, n, 3, &clusterpb.GetCall{Id: "none"})
		if err != nil || got != nil {
			t.Errorf("%s: a task that there is not: %v, %v", name, got, err)
		}
		o, err := Ask[*fsmpb.Outlook](ctx, n, 0, &clusterpb.OutlookCall{})
		if err != nil || o == nil || o.Waiting != 0 {
			t.Errorf("%s: an empty answer: %v, %v", name, o, err)
		}
		change := deletion("q")
		change.Preview, change.Token = true, "t"
		changed, err := Ask[*clusterpb.ControlChanged](ctx, n, 3, change)
		if err != nil || !changed.Existed || !changed.Conflict || changed.Impossible != "t" {
			t.Errorf("%s: a change: %v, %v", name, changed, err)
		}
		if _, err := Ask[*fsmpb.Activity](ctx, n, 3, &clusterpb.ActivityCall{}); !errors.Is(err, task.ErrNotProposed) {
			t.Errorf("%s: a kind without a handler: %v", name, err)
		}
	}
	_, err := Ask[*fsmpb.Task](ctx, here, 3, &clusterpb.OutlookCall{})
	assert.ErrorIs(t, err, task.ErrUnknown, "an answer of another type")
}

// each makes every kind of call, and returns the errors by name.
func each(ctx context.Context, n Node) map[string]error {
	_, get := Ask[*fsmpb.Task](ctx, n, 3, &clusterpb.GetCall{Id: "x"})
	_, outlook := Ask[*fsmpb.Outlook](ctx, n, 3, &clusterpb.OutlookCall{})
	_, change := Ask[*clusterpb.ControlChanged](ctx, n, 3, deletion("x"))
	return map[string]error{
		"commands": n.Do(ctx, 3, []*fsmpb.Command{{Id: "x"}})[0].Err, "get": get, "outlook": outlook, "change": change,
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
			r := remote(t, local{c.made}.table(), nil)
			for call, err := range each(t.Context(), r) {
				assert.ErrorIs(t, err, c.want, "%s", call)
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
	r := remote(t, local{fmt.Errorf("refused: %w", made)}.table(), nil)
	_, err := Ask[*clusterpb.ControlChanged](t.Context(), r, 0, deletion("x"))
	if got, ok := err.(*task.QueuesFullError); !ok || *got != *made {
		t.Errorf("it came as %v", err)
	}
}

func TestFieldErrorsTravel(t *testing.T) {
	made := &task.FieldError{Field: "target.url", Detail: "is too long", Limit: "2048 bytes"}
	r := remote(t, local{fmt.Errorf("refused: %w", made)}.table(), nil)
	_, err := Ask[*clusterpb.ControlChanged](t.Context(), r, 0, deletion("x"))
	if got, ok := err.(*task.FieldError); !ok || *got != *made {
		t.Errorf("%v became %v", made, err)
	}
}

// The error of a whole call is the error of each of its commands.
func TestErrorOfTheWholeCall(t *testing.T) {
	made := EncodeError(task.ErrNotProposed)
	r := remote(t, local{}.table(), func(reply *clusterpb.CallReply) { reply.Answer, reply.Error = nil, made })
	for i, reply := range r.Do(t.Context(), 3, []*fsmpb.Command{{Id: "x"}, {Id: "y"}}) {
		assert.ErrorIs(t, reply.Err, task.ErrNotProposed, "command %d", i)
	}
}

// A command whose answer is missing may have been carried out.
func TestMissingAnswersAreUnknown(t *testing.T) {
	for name, edit := range map[string]func(*clusterpb.CommandReplies){
		"too few":   func(r *clusterpb.CommandReplies) { r.Replies = r.Replies[:1] },
		"no result": func(r *clusterpb.CommandReplies) { r.Replies[1].Result = nil },
	} {
		r := remote(t, local{}.table(), func(reply *clusterpb.CallReply) {
			replies, err := decode[*clusterpb.CommandReplies](reply.Answer)
			assert.NoError(t, err)
			edit(replies)
			reply.Answer, err = encode(replies)
			assert.NoError(t, err)
		})
		replies := r.Do(t.Context(), 3, []*fsmpb.Command{{Id: "x"}, {Id: "y"}})
		if len(replies) != 2 || !errors.Is(replies[1].Err, task.ErrUnknown) {
			t.Errorf("%s: %v", name, replies)
		}
	}
}

// TestMessagesThatCannotBeDecoded checks that a request was not carried out, and that an answer leaves that open.
func TestMessagesThatCannotBeDecoded(t *testing.T) {
	broken := []byte{0xff}
	reply := local{}.table().Answer(t.Context(), &clusterpb.Call{Kind: "GetCall", Request: broken})
	assert.ErrorIs(t, DecodeError(reply.Error, 3, "b"), task.ErrNotProposed, "a request")
	r := remote(t, local{}.table(), func(reply *clusterpb.CallReply) { reply.Answer = broken })
	assert.ErrorIs(t, r.Do(t.Context(), 3, []*fsmpb.Command{{Id: "x"}})[0].Err, task.ErrUnknown, "an answer")
}

func TestUnknownCallsAreNotProposed(t *testing.T) {
	reply := local{}.table().Answer(t.Context(), &clusterpb.Call{Number: 7, Kind: "CallOfALaterBuild"})
	err := DecodeError(reply.Error, 3, "b")
	if !errors.Is(err, task.ErrNotProposed) || reply.Number != 7 || !strings.Contains(err.Error(), "CallOfALaterBuild") {
		t.Errorf("call %d: %v", reply.Number, err)
	}
}

func TestMovedErrorsTravel(t *testing.T) {
	for _, made := range []task.MovedError{{Shard: 7, Epoch: 9}, {Shard: 8, Epoch: 2, Moving: true}} {
		for call, err := range each(t.Context(), remote(t, local{fmt.Errorf("refused: %w", &made)}.table(), nil)) {
			var got *task.MovedError
			if !errors.As(err, &got) || *got != made {
				t.Errorf("%s: %v became %v", call, made, err)
			}
		}
	}
}

// TestKeptNamesLetGoOfTheirMessage checks that names which a node keeps do not point into the message in which they
// came: they would keep a whole batch of calls in memory. The owner of a queue keeps the names of asks, and beliefs that
// of a leader.
func TestKeptNamesLetGoOfTheirMessage(t *testing.T) {
	var names []string
	keep := func(_ context.Context, _ uint32, ask *clusterpb.GroupsAsk) (*clusterpb.GroupsAnswer, error) {
		names = append(names, ask.Namespace, ask.Queue, ask.Ended[0], ask.Wants[0].Group)
		return nil, nil //nolint:nilnil // there is no answer
	}
	request, err := encode(&clusterpb.GroupsAsk{
		Namespace: "n", Queue: "q", Ended: []string{"g"}, Wants: []*clusterpb.GroupWant{{Group: "h"}},
	})
	assert.NoError(t, err)
	if reply := NewTable(nil, On(keep)).Answer(t.Context(), &clusterpb.Call{Kind: "GroupsAsk", Request: request}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	refusal, err := encode(EncodeError(&task.NotLeaderError{Leader: "l"}))
	assert.NoError(t, err)
	refused, err := decode[*clusterpb.CallError](refusal)
	assert.NoError(t, err)
	var notLeader *task.NotLeaderError
	if !errors.As(DecodeError(refused, 1, "b"), &notLeader) {
		t.Fatal(refused)
	}
	clear(request)
	clear(refusal)
	assert.EqualSlices(t, append(names, notLeader.Leader), []string{"n", "q", "g", "h", "l"})
}
