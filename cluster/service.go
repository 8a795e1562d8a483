package cluster

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/membership"
)

// service answers the gRPC calls of other nodes. Forward carries the calls for Node.handlers.
type service struct {
	clusterpb.UnimplementedPeerServer
	n        *Node
	draining <-chan struct{} // closed when other nodes may ask no more
}

// server is the gRPC server for other nodes.
type server struct {
	grpc     *grpc.Server
	serving  sync.WaitGroup
	draining chan struct{} // closed when other nodes may ask no more
}

// serve starts the gRPC server.
func (n *Node) serve() *server {
	check := incoming{n}
	s := &server{draining: make(chan struct{})}
	s.grpc = grpc.NewServer(
		grpc.ConnectionTimeout(5*time.Second), // for the HTTP/2 handshake: a preface and then silence
		grpc.MaxConcurrentStreams(1024), grpc.ForceServerCodecV2(calls.Codec{}),
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
	return s
}

// stop lets the calls of other nodes end in order, and cuts them off after a second. The node stops its server after
// its replicas, because other nodes still ask while these end.
func (s *server) stop() {
	close(s.draining)
	late := time.AfterFunc(time.Second, s.grpc.Stop)
	defer late.Stop()
	s.grpc.GracefulStop()
	s.serving.Wait()
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

func (s service) Forward(stream grpc.BidiStreamingServer[clusterpb.ForwardRequest, clusterpb.ForwardReply]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	from, name := first(md, fromKey), callerName(stream.Context())
	return calls.Serve(stream, s.n.table, func() error { return s.n.refusal(from, name) }, s.draining)
}

func (s service) ReadEvents(ctx context.Context, r *clusterpb.ReadEventsRequest) (*clusterpb.ReadEventsReply, error) {
	return s.n.chronicle.Read(ctx, r)
}

func (s service) Pull(stream grpc.BidiStreamingServer[clusterpb.PullRequest, clusterpb.PullReply]) error {
	return s.n.consumers.Serve(stream, s.draining)
}

// Backup sends another node the state of a shard that this node leads.
func (s service) Backup(req *clusterpb.BackupRequest, stream grpc.ServerStreamingServer[clusterpb.BackupReply]) error {
	return backup.Serve(stream, s.n.replicas, req.Shard, s.draining)
}

func (s service) Ping(context.Context, *clusterpb.PingRequest) (*clusterpb.PingReply, error) {
	received := s.n.cfg.Clock()
	return &clusterpb.PingReply{ReceivedNs: received.UnixNano(), SentNs: s.n.cfg.Clock().UnixNano()}, nil
}
