package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// messageBytes is the length of a piece of state in one message. Pieces of several streams take turns on a connection,
// so a short one keeps the calls between them quick.
const messageBytes = 32 << 10

// state is the unread state of a cut shard.
type state io.ReadCloser

// cutHere cuts a shard that this node leads.
func cutHere(ctx context.Context, here Replicas, id uint32) (
	*clusterpb.BackupShard, state, error) {
	replica, err := here.Find(id)
	if err != nil {
		return nil, nil, err
	}
	cut, err := replica.Cut(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &clusterpb.BackupShard{
		Shard: id, Index: cut.Index, Term: cut.Term, CutMs: cut.At.UnixMilli(), NowMs: cut.NowMs,
		PositionMs: cut.PositionMs, Bytes: uint64(cut.Bytes), Lacks: cut.Lacks,
	}, cut, nil
}

// cutThere asks another node for a cut.
func cutThere(ctx context.Context, peer clusterpb.PeerClient, node string, id uint32) (
	*clusterpb.BackupShard, state, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := peer.Backup(ctx, &clusterpb.BackupRequest{Shard: id})
	var first *clusterpb.BackupReply
	if err == nil {
		first, err = stream.Recv()
	}
	if err != nil {
		err = fmt.Errorf("%w: node %s: %w", task.ErrNotProposed, node, err)
	} else if err = calls.DecodeError(first.Error, id, node); err == nil && first.Cut.GetShard() != id {
		err = fmt.Errorf("node %s has cut another shard than %d", node, id)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return first.Cut, &remoteState{stream: stream, node: node, cancel: cancel}, nil
}

// remoteState reads the state of a shard from the node that has cut it.
type remoteState struct {
	stream grpc.ServerStreamingClient[clusterpb.BackupReply]
	node   string
	cancel context.CancelFunc
	unread []byte
}

func (r *remoteState) Read(to []byte) (int, error) {
	for len(r.unread) == 0 {
		reply, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil && r.stream.Context().Err() != nil {
			err = context.Cause(r.stream.Context()) // which gRPC hides
		}
		if err != nil {
			return 0, fmt.Errorf("node %s: %w", r.node, err)
		}
		r.unread = reply.Data
	}
	n := copy(to, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

func (r *remoteState) Close() error {
	r.cancel()
	return nil
}

// Serve cuts a shard that this node leads and sends its state, until all is sent, the other node leaves, or draining is
// closed.
func Serve(stream grpc.ServerStreamingServer[clusterpb.BackupReply], here Replicas, id uint32,
	draining <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-draining:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	cut, content, err := cutHere(ctx, here, id)
	if err != nil {
		return stream.Send(&clusterpb.BackupReply{Error: calls.EncodeError(err)})
	}
	defer func() { _ = content.Close() }() // it was only read
	if err := stream.Send(&clusterpb.BackupReply{Cut: cut}); err != nil {
		return err
	}
	return send(ctx, stream, content)
}

var errStopping = errors.New("the node that has cut the shard stops")

func send(ctx context.Context, stream grpc.ServerStreamingServer[clusterpb.BackupReply], content io.Reader) error {
	piece := make([]byte, messageBytes) // Send encodes it before it returns
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.ReadFull(content, piece)
		if n > 0 {
			if err := stream.Send(&clusterpb.BackupReply{Data: piece[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}
