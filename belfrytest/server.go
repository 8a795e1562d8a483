package belfrytest

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/node"
)

// startTime bounds the start of a Server, and advanceTime a call of Advance.
const (
	startTime   = 30 * time.Second
	advanceTime = 5 * time.Minute
)

// Server is a Belfry node of its own that runs as long as its test. Its methods are safe for concurrent use. A failure
// ends the test as testing.TB.Fatal does.
type Server struct {
	URL string // of the API, such as http://127.0.0.1:43965

	t       testing.TB
	network network
	node    *node.Node
	client  *client.Client
}

// network opens the sockets of a Server and its receivers. Nil: the system's.
type network interface {
	Listen(addr string) (net.Listener, net.PacketConn, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// New starts a Server, and stops it at the end of the test.
func New(t testing.TB) *Server {
	t.Helper()
	return start(t, nil)
}

func start(t testing.TB, network network) *Server {
	t.Helper()
	cfg := node.DevConfig(filepath.Join(t.TempDir(), "belfry"))
	cfg.Fatal = func(err error) { panic(err) } // the default would end the process of the tests
	cfg.Network = network
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	n, err := node.Start(ctx, cfg)
	if err != nil {
		t.Fatalf("belfrytest: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("belfrytest: %v", err)
		}
	})
	s := &Server{URL: "http://" + n.HTTPAddr(), t: t, network: network, node: n}
	if err := n.AwaitReady(ctx); err != nil {
		t.Fatalf("belfrytest: %v", err)
	}
	calls := client.Config{Addrs: []string{s.URL}}
	if network != nil {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return network.Dial(ctx, addr)
		}}
		t.Cleanup(transport.CloseIdleConnections)
		calls.HTTPClient = &http.Client{Transport: transport}
	}
	if s.client, err = client.New(calls); err != nil {
		t.Fatalf("belfrytest: %v", err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// Client returns a client of the Server.
func (s *Server) Client() *client.Client { return s.client }

// Now returns the Server's time: the machine's time plus all advances.
func (s *Server) Now() time.Time { return s.node.Now() }

// Advance sets the Server's clock ahead, and returns the number of attempts and leases that began meanwhile. Each
// attempt of a retried task counts.
func (s *Server) Advance(by time.Duration) (begun int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), advanceTime)
	defer cancel()
	_, n, err := s.node.Advance(ctx, by)
	if err != nil {
		s.t.Fatalf("belfrytest: %v", err)
	}
	return int(n)
}
