package consume

import (
	"context"
	"errors"
	"io"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// pipe is a stream to the shards on this node.
type pipe struct {
	ctx      context.Context
	requests chan *clusterpb.PullRequest
	replies  chan *clusterpb.PullReply
}

// open begins a stream to a node, which may be this one.
func (p *Consumers) open(ctx context.Context, node string) (Stream, error) {
	if node != p.cfg.Self {
		return p.cfg.Nodes.Pull(ctx, node)
	}
	s := &pipe{
		ctx: ctx, requests: make(chan *clusterpb.PullRequest, 16), replies: make(chan *clusterpb.PullReply, 16),
	}
	p.workers.Go(func() {
		defer close(s.replies)
		err := p.Serve(pipeEnd{s}, ctx.Done())
		if err != nil && !errors.Is(err, context.Canceled) {
			p.cfg.Logger.Warn("this node's own consumers were cut off", "err", err)
		}
	})
	return s, nil
}

func (s *pipe) Send(msg *clusterpb.PullRequest) error {
	select {
	case s.requests <- msg:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *pipe) Recv() (*clusterpb.PullReply, error) {
	msg, ok := <-s.replies
	if !ok {
		return nil, io.EOF
	}
	return msg, nil
}

// pipeEnd is the answering end of a pipe.
type pipeEnd struct{ *pipe }

func (s pipeEnd) Context() context.Context { return s.ctx }

func (s pipeEnd) Send(msg *clusterpb.PullReply) error {
	select {
	case s.replies <- msg:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s pipeEnd) Recv() (*clusterpb.PullRequest, error) {
	select {
	case msg := <-s.requests:
		return msg, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}
