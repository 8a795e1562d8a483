package cluster

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/formation"
	"github.com/belfryhq/belfry/cluster/internal/forward"
	"github.com/belfryhq/belfry/cluster/internal/identity"
)

// service answers the gRPC calls of other nodes.
type service struct {
	clusterpb.UnimplementedPeerServer
	n *Node
}

// serve starts the gRPC server.
func (n *Node) serve() {
	check := incoming{n}
	n.server = grpc.NewServer(
		grpc.ConnectionTimeout(5*time.Second), // for the HTTP/2 handshake: a preface and then silence
		grpc.MaxConcurrentStreams(1024), grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.UnaryInterceptor(check.unary), grpc.StreamInterceptor(check.stream),
	)
	clusterpb.RegisterPeerServer(n.server, service{n: n})
	n.serving.Go(func() {
		if err := n.server.Serve(n.endpoint.GRPC()); err != nil && n.ctx.Err() == nil {
			n.cfg.Logger.Error("other nodes are no longer answered", "err", err)
		}
	})
}

// stopServing lets the calls of other nodes end in order, and cuts them off after a second.
func (n *Node) stopServing() {
	close(n.draining)
	late := time.AfterFunc(time.Second, n.server.Stop)
	defer late.Stop()
	n.server.GracefulStop()
	n.serving.Wait()
}

func (s service) Promise(_ context.Context, req *clusterpb.PromiseRequest) (*clusterpb.PromiseReply, error) {
	p := identity.Promise{ClusterID: req.ClusterId, Nodes: req.Nodes}
	reply, err := formation.Answer(s.n.identity, s.n.cfg.BootstrapExpect, p)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.n.asked.Info("asked for a promise", "cluster", req.ClusterId, "nodes", req.Nodes, "promised", reply.Promised)
	return reply, nil
}

func (s service) Register(ctx context.Context, req *clusterpb.RegisterRequest) (*clusterpb.RegisterReply, error) {
	node := req.GetNode()
	if len(node.GetId()) != identity.IDBytes || node.PeerAddr == "" {
		return nil, status.Error(codes.InvalidArgument, "a node registers by its id, with its address")
	}
	if name := callerName(ctx); name != "" && !req.Relayed && !strings.EqualFold(name, node.Name) {
		return nil, status.Errorf(codes.PermissionDenied, "node %q registers as %q", name, node.Name)
	}
	if err := s.n.register(ctx, req); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &clusterpb.RegisterReply{ClusterId: s.n.ClusterID()}, nil
}

func (s service) Forward(stream grpc.BidiStreamingServer[clusterpb.ForwardRequest, clusterpb.ForwardReply]) error {
	return forward.Serve(stream, answering{s.n.replicas, s.n}, s.n.draining)
}

func (s service) Pull(stream grpc.BidiStreamingServer[clusterpb.PullRequest, clusterpb.PullReply]) error {
	return s.n.consumers.Serve(stream, s.n.draining)
}

// answering answers calls of other nodes from the replicas on this node, and from its replica of the control group.
type answering struct {
	calls.Shards
	n *Node
}

// ChangeQueue commits a change through this node's replica of the control group.
func (a answering) ChangeQueue(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error) {
	return a.n.changeHere(ctx, change)
}

func (s service) AwaitQueues(ctx context.Context,
	r *clusterpb.AwaitQueuesRequest) (*clusterpb.AwaitQueuesReply, error) {
	ctx, cancel := context.WithTimeout(ctx, inForcePatience)
	defer cancel()
	if err := s.n.inForce(ctx, r.Version); err != nil {
		return nil, status.Error(codes.DeadlineExceeded, err.Error())
	}
	return &clusterpb.AwaitQueuesReply{}, nil
}

func (s service) Ping(context.Context, *clusterpb.PingRequest) (*clusterpb.PingReply, error) {
	received := s.n.cfg.Clock()
	return &clusterpb.PingReply{ReceivedNs: received.UnixNano(), SentNs: s.n.cfg.Clock().UnixNano()}, nil
}

func (s service) Status(context.Context, *clusterpb.StatusRequest) (*clusterpb.StatusReply, error) {
	return s.n.status(), nil
}

// status returns the state of the replicas here, the control group's first.
func (n *Node) status() *clusterpb.StatusReply {
	reply := &clusterpb.StatusReply{Health: n.health.Report()}
	if g := n.controlGroup(); g != nil {
		st := g.Stats()
		reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaStatus{
			Leader: st.Leader, Term: st.Term, Applied: st.Taken, State: st.Role})
	}
	for _, s := range n.replicas.All() {
		st := s.Status()
		reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaStatus{
			Shard: st.ID, Leader: st.Leader, Term: st.Term, Applied: st.Applied, State: st.State,
			Tasks: uint64(st.Counts.Tasks), Commands: st.Commands, Hash: st.Hash,
			Diverged: n.comparer.Diverged(st.ID, n.ID()),
		})
	}
	return reply
}
