package calls

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Node answers calls: this node, or another one. Errors are those of package task. A call whose error wraps
// task.ErrNotProposed was not carried out and may be made elsewhere. The error is a *task.NotLeaderError if the node
// has no replica of the shard.
type Node interface {
	// Do commits commands, which must all be about tasks of the shard, and returns a reply to each, in order.
	Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply
	// Call makes a call of another kind, which the type of the request names; see Ask. A call about the node itself has
	// shard 0. The caller must not change the request any more.
	Call(ctx context.Context, shard uint32, request proto.Message) (Answer, error)
}

// Answer is the answer to a call.
type Answer struct {
	message proto.Message // of this node; nil: none
	encoded []byte        // of another node; nil: none
}

// Ask makes a call and returns its answer. A nil answer says that there is none: no such task, for instance.
func Ask[A proto.Message](ctx context.Context, n Node, shard uint32, request proto.Message) (A, error) {
	var none A
	answer, err := n.Call(ctx, shard, request)
	switch {
	case err != nil:
		return none, err
	case answer.encoded != nil:
		message, err := decode[A](answer.encoded)
		if err != nil {
			return none, fmt.Errorf("%w: the answer to a %s cannot be decoded: %w", task.ErrUnknown, kindOf(request), err)
		}
		return message, nil
	case answer.message == nil:
		return none, nil
	}
	message, ok := answer.message.(A)
	if !ok {
		return none, fmt.Errorf("%w: a %s is answered with a %T", task.ErrUnknown, kindOf(request), answer.message)
	}
	return message, nil
}

// kindOf returns the name of a message in the .proto file.
func kindOf(m proto.Message) string { return string(m.ProtoReflect().Descriptor().Name()) }

// Remote makes calls to another node by messages.
type Remote struct {
	Node string // id of the other node
	// Send sends a call and returns its reply, or an error that says whether the call may have been carried out. The
	// namespace is the one that the call counts for; empty: none.
	Send func(ctx context.Context, call *clusterpb.Call, namespace string) (*clusterpb.CallReply, error)
}

var _ Node = Remote{}

// Call makes a call. The error may be of either node.
func (r Remote) Call(ctx context.Context, shard uint32, request proto.Message) (Answer, error) {
	encoded, err := encode(request)
	if err != nil {
		return Answer{}, notSent(r.Node, err)
	}
	call := &clusterpb.Call{Shard: shard, Kind: kindOf(request), Request: encoded}
	reply, err := r.Send(ctx, call, namespaceOf(request))
	if err == nil {
		err = DecodeError(reply.Error, shard, r.Node)
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{encoded: reply.Answer}, nil
}

// Do commits commands of one shard.
func (r Remote) Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply {
	answer, err := Ask[*clusterpb.CommandReplies](ctx, r, shard, &clusterpb.Commands{Commands: cmds})
	if got := len(answer.GetReplies()); err == nil && got != len(cmds) {
		err = fmt.Errorf("%w: node %s answered %d of %d commands", task.ErrUnknown, r.Node, got, len(cmds))
	}
	if err != nil {
		return Refuse(len(cmds), err)
	}
	replies := make([]task.Reply, len(cmds))
	for i, reply := range answer.Replies {
		replies[i] = task.Reply{Result: reply.Result, Err: DecodeError(reply.Error, shard, r.Node)}
		if replies[i].Result == nil && replies[i].Err == nil {
			replies[i].Err = fmt.Errorf("%w: node %s answered nothing", task.ErrUnknown, r.Node)
		}
	}
	return replies
}

// Refuse returns the replies to n commands when none was carried out because of err.
func Refuse(n int, err error) []task.Reply {
	replies := make([]task.Reply, n)
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// namespaceOf returns the namespace that a call counts for: that of its first command. It is empty for the cluster's
// own calls.
func namespaceOf(request proto.Message) string {
	switch r := request.(type) {
	case *clusterpb.Commands:
		if cmds := r.GetCommands(); len(cmds) > 0 {
			return task.CanonicalNamespace(cmds[0].GetNamespace())
		}
	case *clusterpb.GetCall:
		return task.CanonicalNamespace(r.GetNamespace())
	case *clusterpb.ListCall:
		return task.CanonicalNamespace(r.GetQuery().GetNamespace())
	}
	return ""
}
