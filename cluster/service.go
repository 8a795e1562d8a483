package cluster

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/peer"
)

// service answers the gRPC calls of other nodes.
type service struct {
	clusterpb.UnimplementedPeerServer
	n        *Node
	draining <-chan struct{} // closed when other nodes may ask no more
}

// server serves other nodes: gRPC, and the streams of calls and of leased tasks.
type server struct {
	endpoint *peer.Endpoint
	grpc     *grpc.Server
	serving  sync.WaitGroup
	draining chan struct{}      // closed when other nodes may ask no more
	ctx      context.Context    // of the streams
	cut      context.CancelFunc // ends the streams at once
}

// serve starts the server.
func (n *Node) serve() *server {
	check := incoming{n}
	s := &server{endpoint: n.endpoint, draining: make(chan struct{})}
	s.ctx, s.cut = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(
		grpc.ConnectionTimeout(5*time.Second), // for the HTTP/2 handshake: a preface and then silence
		grpc.MaxConcurrentStreams(1024),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.UnaryInterceptor(check.unary), grpc.StreamInterceptor(check.stream),
	)
	clusterpb.RegisterPeerServer(s.grpc, service{n: n, draining: s.draining})
	s.serving.Go(func() {
		if err := s.grpc.Serve(n.endpoint.GRPC()); err != nil && n.ctx.Err() == nil {
			n.cfg.Logger.Error("other nodes are no longer answered", "err", err)
		}
	})
	s.serving.Go(func() { s.acceptStreams(n) })
	return s
}

// acceptStreams serves the streams of other nodes until stop is called.
func (s *server) acceptStreams(n *Node) {
	for {
		in, err := s.endpoint.AcceptStream()
		if err != nil {
			return
		}
		s.serving.Go(func() {
			if err := s.serveStream(n, in); err != nil {
				n.cfg.Logger.Debug("a stream of a node has ended", "node", in.From, "err", err)
			}
		})
	}
}

// The answering ends of streams.
type (
	pullStream = peer.Stream[clusterpb.PullReply, clusterpb.PullRequest, *clusterpb.PullReply, *clusterpb.PullRequest]
	callStream = peer.Stream[
		clusterpb.ForwardReply, clusterpb.ForwardRequest, *clusterpb.ForwardReply, *clusterpb.ForwardRequest]
)

// serveStream serves a stream until it ends. Calls answers for Node.handlers.
func (s *server) serveStream(n *Node, in *peer.Incoming) error {
	admit := func() error { return n.admit(in) }
	if in.Traffic == peer.Pulls {
		return peer.ServeStream(s.ctx, in, func(stream *pullStream) error {
			if err := admit(); err != nil {
				return err
			}
			return n.consumers.Serve(stream, s.draining)
		})
	}
	return peer.ServeStream(s.ctx, in, func(stream *callStream) error {
		if err := admit(); err != nil {
			return err
		}
		return calls.Serve(stream, n.table, admit, s.draining)
	})
}

// stop lets the calls of other nodes end in order, and cuts them off after a second. The node stops its server after
// its replicas, because other nodes still ask while these end.
func (s *server) stop() {
	close(s.draining)
	s.endpoint.StopStreams()
	late := time.AfterFunc(time.Second, func() { s.grpc.Stop(); s.cut() })
	defer late.Stop()
	s.grpc.GracefulStop()
	s.serving.Wait()
	s.cut()
}

func (s service) Promise(_ context.Context, req *clusterpb.PromiseRequest) (*clusterpb.PromiseReply, error) {
	p := membership.Promise{ClusterID: req.ClusterId, Nodes: req.Nodes}
	reply, err := membership.AnswerPromise(s.n.identity, s.n.cfg.BootstrapExpect, p)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.n.limited.Info("asked for a promise", "cluster", req.ClusterId, "nodes", req.Nodes, "promised", reply.Promised)
	return reply, nil
}

func (s service) Register(ctx context.Context, req *clusterpb.RegisterRequest) (*clusterpb.RegisterReply, error) {
	node := req.GetNode()
	if len(node.GetId()) != membership.IDBytes || node.PeerAddr == "" {
		return nil, status.Error(codes.InvalidArgument, "a node registers by its id, with its address")
	}
	if name := callerName(ctx); name != "" && !mayRegister(name, node) {
		return nil, status.Errorf(codes.PermissionDenied, "node %q registers as %q", name, node.Name)
	}
	if err := s.n.member.Register(ctx, req); err != nil {
		return nil, membership.RefusalStatus(err)
	}
	return &clusterpb.RegisterReply{ClusterId: s.n.ClusterID()}, nil
}

// mayRegister reports whether the caller with this name may register the node: a node registers itself.
func mayRegister(name string, node *clusterpb.Node) bool { return strings.EqualFold(name, node.Name) }

// Witness answers another node, or a copy of this one, with this node's record of it.
func (s service) Witness(_ context.Context, req *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error) {
	reply, err := s.n.records.Answer(req, s.n.runHere)
	if err != nil {
		return nil, err
	}
	reply.Removed = s.n.directory.IsRemoved(req.Node)
	if g := s.n.control.Group(); g != nil {
		reply.Standing = g.Standing()
	}
	return reply, nil
}

func (s service) ReadEvents(ctx context.Context, r *clusterpb.ReadEventsRequest) (*clusterpb.ReadEventsReply, error) {
	return s.n.chronicle.Read(ctx, r)
}

// Backup sends another node the state of a shard that this node leads.
func (s service) Backup(req *clusterpb.BackupRequest, stream grpc.ServerStreamingServer[clusterpb.BackupReply]) error {
	return backup.Serve(stream, s.n.replicas, req.Shard, s.draining)
}

func (s service) Ping(context.Context, *clusterpb.PingRequest) (*clusterpb.PingReply, error) {
	received := s.n.cfg.Clock()
	return &clusterpb.PingReply{ReceivedNs: received.UnixNano(), SentNs: s.n.cfg.Clock().UnixNano()}, nil
}
