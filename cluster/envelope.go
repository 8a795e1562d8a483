package cluster

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/peer"
)

// Every gRPC call carries the ids of its destination node, of the caller, and of the caller's cluster under these keys.
// The refusal of a removed caller carries removedKey in its trailer.
const (
	toKey      = "belfry-to"
	fromKey    = "belfry-from"
	clusterKey = "belfry-cluster"
	removedKey = "belfry-removed"
)

// outgoing adds the ids of the destination, the caller and the cluster to each call.
type outgoing struct {
	n  *Node // the caller
	to string
}

func (o outgoing) label(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, toKey, o.to, fromKey, o.n.ID(), clusterKey, o.n.ClusterID())
}

// unary makes a call. Each node asks all others for the time once a second, so a removed node learns of its removal at
// once, although the control group sends it no more entries.
func (o outgoing) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var trailer metadata.MD
	err := invoke(o.label(ctx), method, req, reply, cc, append(opts, grpc.Trailer(&trailer))...)
	if err != nil && first(trailer, removedKey) == o.n.ID() {
		o.n.member.Removed() // this node stands aside
	}
	return err
}

func (o outgoing) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return streamer(o.label(ctx), desc, cc, method, opts...)
}

// incoming checks the ids of each call. It refuses a call for another node before any other part of the call is read.
type incoming struct{ n *Node }

func (i incoming) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	if err := i.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (i incoming) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := i.check(s.Context(), info.FullMethod); err != nil {
		return err
	}
	return handle(srv, s)
}

// check refuses calls for another node, and calls from outside the cluster except those by which a node enters it. A
// node that stands aside answers only Witness, and a removed caller gets an answer only to Witness.
func (i incoming) check(ctx context.Context, method string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if to := first(md, toKey); to != i.n.ID() {
		return status.Errorf(codes.FailedPrecondition, "this is node %s, and the call is for node %q", i.n.ID(), to)
	}
	from, witness := first(md, fromKey), method == clusterpb.Peer_Witness_FullMethodName
	if i.n.admission.Refused() && !witness {
		return status.Error(codes.FailedPrecondition, i.n.Barred())
	}
	enters := method == clusterpb.Peer_Promise_FullMethodName || method == clusterpb.Peer_Register_FullMethodName
	if !enters {
		if err := i.n.outside(first(md, clusterKey)); err != nil {
			return err
		}
	}
	if witness {
		return nil
	}
	if i.n.directory.IsRemoved(from) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs(removedKey, from)); err != nil {
			i.n.cfg.Logger.Debug("a removed node is not told so", "node", from, "err", err)
		}
	}
	name := callerName(ctx)
	if enters {
		name = ""
	}
	return i.n.refusal(from, name)
}

// admit returns the reason to refuse a stream, or nil.
func (n *Node) admit(in *peer.Incoming) error {
	err := n.outside(in.Cluster)
	if err == nil {
		err = n.refusal(in.From, in.Name)
	}
	if err != nil {
		return &peer.RefusedError{Reason: status.Convert(err).Message()}
	}
	return nil
}

// outside refuses a caller of another cluster, or of none.
func (n *Node) outside(cluster string) error {
	if cluster == "" || cluster != n.ClusterID() {
		return status.Errorf(codes.FailedPrecondition,
			"this node is in cluster %q, and the caller in %q", n.ClusterID(), cluster)
	}
	return nil
}

// refusal returns the reason to refuse a caller, which may come about while its stream of calls is open: this node
// stands aside, or the caller is no member of the cluster any more. The name is empty if it does not matter.
func (n *Node) refusal(from, name string) error {
	switch {
	case n.admission.Refused():
		return status.Error(codes.FailedPrecondition, n.Barred())
	case n.directory.IsRemoved(from):
		return status.Error(codes.FailedPrecondition, control.ErrRemoved.Error())
	case name != "" && !n.directory.IsMember(name):
		return status.Errorf(codes.FailedPrecondition, "node %q is not in the cluster", name)
	}
	return nil
}

func first(md metadata.MD, key string) string {
	if values := md.Get(key); len(values) == 1 {
		return values[0]
	}
	return ""
}

// callerName returns the name in the caller's certificate. It is empty without keys.
func callerName(ctx context.Context) string {
	caller, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return ""
	}
	var addr net.Addr = caller.Addr
	if named, ok := addr.(peer.Addr); ok {
		return named.Name
	}
	return ""
}
