package calls

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Table is this node: the handlers of its calls, by their kinds.
type Table struct {
	do       func(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply
	handlers map[string]Handler
}

var _ Node = (*Table)(nil)

// Handler answers one kind of call.
type Handler struct {
	kind   string
	decode func(encoded []byte) (proto.Message, error)
	answer func(ctx context.Context, shard uint32, request proto.Message) (proto.Message, error)
}

// On returns the handler of the calls whose request is a Q. A nil answer without an error says that there is none.
func On[Q, A proto.Message](answer func(ctx context.Context, shard uint32, request Q) (A, error)) Handler {
	var request Q
	return Handler{
		kind:   kindOf(request),
		decode: func(encoded []byte) (proto.Message, error) { return decode[Q](encoded) },
		answer: func(ctx context.Context, shard uint32, request proto.Message) (proto.Message, error) {
			answer, err := answer(ctx, shard, request.(Q)) //nolint:forcetypeassert // the kind gives the type
			if err != nil || !answer.ProtoReflect().IsValid() {
				return nil, err
			}
			return answer, nil
		},
	}
}

// NewTable returns a table that lets do commit commands, and handlers answer the other calls.
func NewTable(
	do func(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply, handlers ...Handler,
) *Table {
	t := &Table{do: do, handlers: make(map[string]Handler)}
	commands := On(func(ctx context.Context, id uint32, c *clusterpb.Commands) (*clusterpb.CommandReplies, error) {
		return encodeReplies(do(ctx, id, c.Commands)), nil
	})
	for _, h := range append(handlers, commands) {
		if _, twice := t.handlers[h.kind]; twice {
			panic("calls: two handlers of " + h.kind)
		}
		t.handlers[h.kind] = h
	}
	return t
}

// Do commits commands.
func (t *Table) Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply {
	return t.do(ctx, shard, cmds)
}

// Call answers a call of this node.
func (t *Table) Call(ctx context.Context, shard uint32, request proto.Message) (Answer, error) {
	h, err := t.handler(kindOf(request))
	if err != nil {
		return Answer{}, err
	}
	message, err := h.answer(ctx, shard, request)
	return Answer{message: message}, err
}

// Answer answers a call of another node. The reply carries the call's number.
func (t *Table) Answer(ctx context.Context, call *clusterpb.Call) *clusterpb.CallReply {
	answer, err := t.answer(ctx, call)
	return &clusterpb.CallReply{Number: call.Number, Answer: answer, Error: EncodeError(err)}
}

func (t *Table) answer(ctx context.Context, call *clusterpb.Call) ([]byte, error) {
	h, err := t.handler(call.Kind)
	if err != nil {
		return nil, err
	}
	request, err := h.decode(call.Request)
	if err != nil {
		return nil, fmt.Errorf("%w: a %s that cannot be decoded: %w", task.ErrNotProposed, h.kind, err)
	}
	answer, err := h.answer(ctx, call.Shard, request)
	if err != nil || answer == nil {
		return nil, err
	}
	return encode(answer)
}

func (t *Table) handler(kind string) (Handler, error) {
	h, ok := t.handlers[kind]
	if !ok {
		return Handler{}, fmt.Errorf("%w: this build does not know calls of the kind %s",
			task.ErrNotProposed, strings.Clone(kind))
	}
	return h, nil
}

func encodeReplies(replies []task.Reply) *clusterpb.CommandReplies {
	encoded := &clusterpb.CommandReplies{}
	for _, r := range replies {
		encoded.Replies = append(encoded.Replies, &clusterpb.CommandReply{Result: r.Result, Error: EncodeError(r.Err)})
	}
	return encoded
}
