package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/peer"
)

const maxMessageBytes = 64 << 20 // of gRPC, between nodes

// peers holds a gRPC connection and a stream of calls for each node that this node has ever called.
type peers struct {
	n       *Node
	metrics *calls.Metrics

	mu     sync.Mutex
	remote map[string]*remote
	closed bool
}

// remote is the connection to another node.
type remote struct {
	n     *Node
	id    string
	conn  *grpc.ClientConn
	rpc   clusterpb.PeerClient
	calls *calls.Client
}

func newPeers(n *Node) *peers {
	return &peers{n: n, metrics: calls.NewMetrics(n.cfg.Registerer), remote: make(map[string]*remote)}
}

// Peer returns the client of another node.
func (p *peers) Peer(id string) clusterpb.PeerClient { return p.get(id).rpc }

// calls returns the stream of calls to another node.
func (p *peers) calls(id string) calls.Node { return p.get(id).calls }

// get returns the connection to a node. It never fails: each call to an unreachable node returns the error.
func (p *peers) get(id string) *remote {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.remote[id]; r != nil {
		return r
	}
	r := p.connect(id)
	p.remote[id] = r
	if p.closed {
		r.calls.Close()
	}
	return r
}

// connect prepares a connection that dials, by the node's present address, when it is first needed.
func (p *peers) connect(id string) *remote {
	to := outgoing{p.n, id}
	conn, err := grpc.NewClient("passthrough:///"+id,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the peer port does TLS by itself
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return p.n.endpoint.DialNode(ctx, id)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 20 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 500 * time.Millisecond,
			},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 3 * time.Second, PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithUnaryInterceptor(to.unary), grpc.WithStreamInterceptor(to.stream), grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
	)
	if err != nil {
		panic("cluster: a gRPC client with constant options: " + err.Error())
	}
	r := &remote{n: p.n, id: id, conn: conn, rpc: clusterpb.NewPeerClient(conn)}
	r.calls = calls.NewClient(calls.ClientConfig{Node: id, Peer: r, Metrics: p.metrics})
	return r
}

// Open begins the stream of calls to the node.
func (r *remote) Open(ctx context.Context) (calls.Stream, error) {
	return peer.OpenStream[clusterpb.ForwardRequest, clusterpb.ForwardReply](
		ctx, r.n.endpoint, peer.Calls, r.id, r.n.ClusterID())
}

// Refused reports whether the node refuses this one: see Node.admit.
func (*remote) Refused(err error) bool {
	var refused *peer.RefusedError
	return errors.As(err, &refused)
}

// refusalIn returns the reason of another node to refuse this one's gRPC calls, or an empty string if err is about
// something else: see incoming.
func refusalIn(err error) string {
	var refused interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &refused) || status.Code(err) != codes.FailedPrecondition {
		return ""
	}
	return refused.GRPCStatus().Message()
}

// Witness asks the process that listens at an address, if the process claims to be this very node.
func (p *peers) Witness(
	ctx context.Context, addr string, req *clusterpb.WitnessRequest,
) (_ *clusterpb.WitnessReply, err error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the peer port does TLS by itself
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return p.n.endpoint.DialAddr(ctx, addr)
		}),
		grpc.WithUnaryInterceptor(outgoing{p.n, p.n.ID()}.unary),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return clusterpb.NewPeerClient(conn).Witness(ctx, req)
}

func (p *peers) close() error {
	p.mu.Lock()
	p.closed = true
	remotes := p.remote
	p.mu.Unlock()
	var errs []error
	for _, r := range remotes {
		r.calls.Close()
		errs = append(errs, r.conn.Close())
	}
	return errors.Join(errs...)
}
