package calls

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard"
)

// Shards answers calls to shards, of this node or of another one. Errors are those of package task. A call whose error
// wraps task.ErrNotProposed was not carried out and may be made elsewhere. The error is a *task.NotLeaderError if the
// node has no replica of the shard.
type Shards interface {
	// Do commits commands, which must all be about tasks of the shard, and returns a reply to each, in order.
	Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply
	// Get returns a task, or nil if there is none.
	Get(ctx context.Context, shard uint32, namespace, id string, stale bool) (*fsmpb.Task, error)
	// List returns one page of the shard's tasks.
	List(ctx context.Context, shard uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error)
	// Queues returns the number of the shard's tasks in queues.
	Queues(ctx context.Context, shard uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error)
	// NamespaceUse returns the use of a namespace in the shard.
	NamespaceUse(ctx context.Context, shard uint32, namespace string) (task.NamespaceUse, error)
	// Outlook counts the tasks that wait in the shard's wheel.
	Outlook(ctx context.Context, shard uint32) (*fsmpb.Outlook, error)
	// Activity counts the events of the shard, in the steps that begin after an instant in Unix milliseconds.
	Activity(ctx context.Context, shard uint32, afterMs int64) (*fsmpb.Activity, error)
	// Quota makes one step of the way in which the cluster keeps a quota. A repeated step does no harm.
	Quota(ctx context.Context, shard uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error)
	// Lend asks the shard that owns a limited queue for permits. It may be repeated: each time the borrower states the
	// permits that it holds, and so the owner forgets a loan that did not arrive.
	Lend(ctx context.Context, owner uint32, ask shard.Borrow) (shard.Loan, error)
	// AskGroups asks the shard that owns a queue for permits of its groups. A repeated ask does no harm: its asker uses
	// only the permits of the last answer.
	AskGroups(ctx context.Context, owner uint32, ask shard.GroupsAsk) (shard.GroupsAnswer, error)
	// LookGroups asks the shard where groups of a queue stand.
	LookGroups(ctx context.Context, shard uint32, look shard.GroupsLook) (shard.GroupsStanding, error)
	// Members makes a change of the shard's membership, if one is set, and returns the membership after it. The error
	// wraps raftgroup.ErrUnfit if the change does not fit.
	Members(ctx context.Context, shard uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error)
	// ReadSlots returns a batch of tasks in slots that move away from the shard.
	ReadSlots(ctx context.Context, shard uint32, ask *clusterpb.ReadSlotsCall) (*clusterpb.SlotsBatch, error)
	// PullSlots has the shard go on with the copy of slots that it expects.
	PullSlots(ctx context.Context, shard uint32, ask *clusterpb.PullSlotsCall) (*clusterpb.SlotsProgress, error)
}

// Node answers the calls of another node.
type Node interface {
	Shards
	// Change makes the control group commit a change. The node must lead the group.
	Change(ctx context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error)
}

// controlGroup stands for the control group in the Shard field of a call.
const controlGroup = 0

// Remote makes calls to another node by messages.
type Remote struct {
	Node string // id of the other node
	// Ask sends a call and returns its reply, or an error that says whether the call may have been carried out. A
	// repeatable call changes nothing.
	Ask func(ctx context.Context, call *clusterpb.Call, repeatable bool) (*clusterpb.CallReply, error)
}

var _ Node = Remote{}

// Do commits commands of one shard.
func (r Remote) Do(ctx context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	call := &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Commands{Commands: &clusterpb.Commands{Commands: cmds}}}
	reply, err := r.ask(ctx, call, false)
	if err == nil && len(reply.Commands) != len(cmds) {
		err = fmt.Errorf("%w: node %s answered %d of %d commands", task.ErrUnknown, r.Node, len(reply.Commands), len(cmds))
	}
	if err != nil {
		return Refuse(len(cmds), err)
	}
	replies := make([]task.Reply, len(cmds))
	for i, answer := range reply.Commands {
		replies[i] = task.Reply{Result: answer.Result, Err: DecodeError(answer.Error, id, r.Node)}
		if replies[i].Result == nil && replies[i].Err == nil {
			replies[i].Err = fmt.Errorf("%w: node %s answered nothing", task.ErrUnknown, r.Node)
		}
	}
	return replies
}

// Get returns a task, or nil if there is none.
func (r Remote) Get(ctx context.Context, id uint32, namespace, name string, stale bool) (*fsmpb.Task, error) {
	get := &clusterpb.GetCall{Namespace: namespace, Id: name, Stale: stale}
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Get{Get: get}}, true)
	return reply.GetTask(), err
}

// List returns one page of one shard.
func (r Remote) List(ctx context.Context, id uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	list := &clusterpb.ListCall{Query: q, Stale: stale}
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_List{List: list}}, true)
	return reply.GetPage(), err
}

// Queues returns the number of a shard's tasks in queues.
func (r Remote) Queues(ctx context.Context, id uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Queues{Queues: ask}}, true)
	return reply.GetCounts(), err
}

// NamespaceUse returns the use of a namespace in a shard.
func (r Remote) NamespaceUse(ctx context.Context, id uint32, namespace string) (task.NamespaceUse, error) {
	ask := &clusterpb.NamespaceCall{Namespace: namespace}
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_NamespaceUse{NamespaceUse: ask}}, true)
	use := reply.GetNamespaceUse()
	return task.NamespaceUse{
		Namespace: task.CanonicalNamespace(namespace),
		Pending:   use.GetPending(), Dead: use.GetDead(), Bytes: use.GetBytes(), Queues: use.GetQueues(),
	}, err
}

// Outlook counts the tasks that wait in a shard's wheel.
func (r Remote) Outlook(ctx context.Context, id uint32) (*fsmpb.Outlook, error) {
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Outlook{}}, true)
	return reply.GetOutlook(), err
}

// Activity counts the events of a shard.
func (r Remote) Activity(ctx context.Context, id uint32, afterMs int64) (*fsmpb.Activity, error) {
	ask := &clusterpb.ActivityCall{AfterMs: afterMs}
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Activity{Activity: ask}}, true)
	return reply.GetActivity(), err
}

// Quota makes one step of the way in which the cluster keeps a quota.
func (r Remote) Quota(ctx context.Context, id uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Quota{Quota: call}}, true)
	return reply.GetQuota(), err
}

// Lend asks the shard that owns a queue for permits.
func (r Remote) Lend(ctx context.Context, owner uint32, ask shard.Borrow) (shard.Loan, error) {
	call := &clusterpb.Call{Shard: owner, Op: &clusterpb.Call_Lend{Lend: &clusterpb.LendCall{
		Namespace: ask.Namespace, Queue: ask.Queue, Borrower: ask.Shard, Term: ask.Term, Round: ask.Round,
		InFlight: uint32(ask.InFlight), Unused: uint32(ask.Unused), Want: uint32(ask.Want), Priority: uint32(ask.Priority),
	}}}
	reply, err := r.ask(ctx, call, true)
	loan := reply.GetLoan()
	return shard.Loan{
		Permits: int(loan.GetPermits()), Life: time.Duration(loan.GetLifeUs()) * time.Microsecond,
		RetryAfter: time.Duration(loan.GetRetryAfterUs()) * time.Microsecond,
	}, err
}

// Members makes a change of a shard's membership, if one is set, and returns the membership after it.
func (r Remote) Members(ctx context.Context, id uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_Members{Members: ask}}, ask.Change == nil)
	return reply.GetMembers(), err
}

// ReadSlots returns a batch of tasks in slots that move away from a shard.
func (r Remote) ReadSlots(
	ctx context.Context, id uint32, ask *clusterpb.ReadSlotsCall,
) (*clusterpb.SlotsBatch, error) {
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_ReadSlots{ReadSlots: ask}}, true)
	return reply.GetBatch(), err
}

// PullSlots has a shard go on with the copy of slots that it expects.
func (r Remote) PullSlots(
	ctx context.Context, id uint32, ask *clusterpb.PullSlotsCall,
) (*clusterpb.SlotsProgress, error) {
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_PullSlots{PullSlots: ask}}, true)
	return reply.GetProgress(), err
}

// Change makes the control group commit a change.
func (r Remote) Change(ctx context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	call := &clusterpb.Call{Shard: controlGroup, Op: &clusterpb.Call_Change{Change: change}}
	reply, err := r.ask(ctx, call, false)
	if err == nil && reply.Changed == nil {
		return nil, fmt.Errorf("%w: node %s answered nothing", task.ErrUnknown, r.Node)
	}
	return reply.GetChanged(), err
}

// Refuse returns the replies to n commands when none was carried out because of err.
func Refuse(n int, err error) []task.Reply {
	replies := make([]task.Reply, n)
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// ask returns the reply to a call, or an error, whichever node made it.
func (r Remote) ask(ctx context.Context, call *clusterpb.Call, repeatable bool) (*clusterpb.CallReply, error) {
	reply, err := r.Ask(ctx, call, repeatable)
	if err == nil {
		err = DecodeError(reply.Error, call.Shard, r.Node)
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// Answer answers a call by node n. The reply carries the call's number.
func Answer(ctx context.Context, n Node, call *clusterpb.Call) *clusterpb.CallReply {
	reply := &clusterpb.CallReply{Number: call.Number}
	var err error
	switch op := call.Op.(type) {
	case *clusterpb.Call_Commands:
		reply.Commands = answerCommands(n.Do(ctx, call.Shard, op.Commands.GetCommands()))
	case *clusterpb.Call_Get:
		reply.Task, err = n.Get(ctx, call.Shard, op.Get.Namespace, op.Get.Id, op.Get.Stale)
	case *clusterpb.Call_List:
		reply.Page, err = n.List(ctx, call.Shard, op.List.Query, op.List.Stale)
	case *clusterpb.Call_Queues:
		reply.Counts, err = n.Queues(ctx, call.Shard, op.Queues)
	case *clusterpb.Call_NamespaceUse:
		reply.NamespaceUse, err = answerNamespaceUse(ctx, n, call.Shard, op.NamespaceUse)
	case *clusterpb.Call_Outlook:
		reply.Outlook, err = n.Outlook(ctx, call.Shard)
	case *clusterpb.Call_Activity:
		reply.Activity, err = n.Activity(ctx, call.Shard, op.Activity.GetAfterMs())
	case *clusterpb.Call_Quota:
		reply.Quota, err = n.Quota(ctx, call.Shard, op.Quota)
	case *clusterpb.Call_Lend:
		reply.Loan, err = answerLend(ctx, n, call.Shard, op.Lend)
	case *clusterpb.Call_AskGroups:
		reply.GroupsAnswer, err = answerAskGroups(ctx, n, call.Shard, op.AskGroups)
	case *clusterpb.Call_LookGroups:
		reply.GroupsStanding, err = answerLookGroups(ctx, n, call.Shard, op.LookGroups)
	case *clusterpb.Call_Members:
		reply.Members, err = n.Members(ctx, call.Shard, op.Members)
	case *clusterpb.Call_ReadSlots:
		reply.Batch, err = n.ReadSlots(ctx, call.Shard, op.ReadSlots)
	case *clusterpb.Call_PullSlots:
		reply.Progress, err = n.PullSlots(ctx, call.Shard, op.PullSlots)
	case *clusterpb.Call_Change:
		reply.Changed, err = n.Change(ctx, op.Change)
	default:
		err = fmt.Errorf("%w: a call of a kind that this build does not know", task.ErrNotProposed)
	}
	reply.Error = EncodeError(err)
	return reply
}

func answerCommands(replies []task.Reply) []*clusterpb.CommandReply {
	var answers []*clusterpb.CommandReply
	for _, r := range replies {
		answers = append(answers, &clusterpb.CommandReply{Result: r.Result, Error: EncodeError(r.Err)})
	}
	return answers
}

func answerNamespaceUse(
	ctx context.Context, n Node, id uint32, ask *clusterpb.NamespaceCall,
) (*clusterpb.NamespaceUse, error) {
	use, err := n.NamespaceUse(ctx, id, ask.GetNamespace())
	if err != nil {
		return nil, err
	}
	return &clusterpb.NamespaceUse{Pending: use.Pending, Dead: use.Dead, Bytes: use.Bytes, Queues: use.Queues}, nil
}

// own returns a copy of a message, whose text points into the batch of calls in which the message came. The owner of a
// queue keeps text of an ask for as long as the queue is in use, and with it would keep the whole batch.
func own[M any, P interface {
	*M
	MarshalVT() ([]byte, error)
	UnmarshalVTUnsafe(b []byte) error
}](m P) (P, error) {
	data, err := m.MarshalVT()
	if err != nil {
		return nil, err
	}
	copied := P(new(M))
	return copied, copied.UnmarshalVTUnsafe(data)
}

func answerLend(ctx context.Context, n Node, owner uint32, call *clusterpb.LendCall) (*clusterpb.Loan, error) {
	ask, err := own(call)
	if err != nil {
		return nil, err
	}
	loan, err := n.Lend(ctx, owner, shard.Borrow{
		Namespace: ask.Namespace, Queue: ask.Queue, Shard: ask.Borrower, Borrow: lend.Borrow{
			Term: ask.Term, Round: ask.Round, InFlight: int(ask.InFlight), Unused: int(ask.Unused), Want: int(ask.Want),
			Priority: int(ask.Priority),
		},
	})
	if err != nil {
		return nil, err
	}
	return &clusterpb.Loan{
		Permits: uint32(loan.Permits), LifeUs: loan.Life.Microseconds(), RetryAfterUs: loan.RetryAfter.Microseconds(),
	}, nil
}
