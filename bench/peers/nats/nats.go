package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/wait"
)

// servers are the servers of a subject.
type servers struct {
	nodes int
	sync  string // sync interval in the configuration; empty: the server's default
}

// OneNode returns a single server that syncs each write.
func OneNode() subject.Subject {
	return subject.Subject{
		Name: "NATS JetStream, 1 node, sync always", Promise: subject.Promise{Nodes: 1, Fsync: subject.FsyncEachWrite},
		Need: need, Start: servers{nodes: 1, sync: "always"}.start,
	}
}

// ThreeNodes returns three servers that replicate the stream, with the default sync interval.
func ThreeNodes() subject.Subject {
	return subject.Subject{
		Name: "NATS JetStream, 3 nodes", Promise: subject.Promise{Nodes: 3, Replicated: true, Fsync: subject.FsyncNone},
		Need: need, Start: servers{nodes: 3}.start,
	}
}

// ThreeNodesSynced returns three servers that replicate the stream, each of which syncs each write.
func ThreeNodesSynced() subject.Subject {
	return subject.Subject{
		Name:    "NATS JetStream, 3 nodes, sync always",
		Promise: subject.Promise{Nodes: 3, Replicated: true, Fsync: subject.FsyncEachWrite},
		Need:    need, Start: servers{nodes: 3, sync: "always"}.start,
	}
}

func need() error {
	_, err := installed.NATS()
	return err
}

func (s servers) start(ctx context.Context, dir string) (subject.Service, error) {
	program, err := installed.NATS()
	if err != nil {
		return nil, err
	}
	addrs, err := local.FreeAddrs(2 * s.nodes) // for clients and for the cluster's routes
	if err != nil {
		return nil, err
	}
	v := &service{urls: subject.URLs("nats", addrs[:s.nodes])}
	for i := range s.nodes {
		if err := v.launch(ctx, program, filepath.Join(dir, nodeName(i)), s.config(i, addrs)); err != nil {
			return nil, errors.Join(err, v.Stop())
		}
	}
	if err := v.createStream(ctx); err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	if s.nodes > 1 {
		return cluster{v}, nil
	}
	return v, nil
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// config returns a node's configuration file. The server's working folder is the node's.
func (s servers) config(node int, addrs []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: %q\njetstream {\n  store_dir: store\n", nodeName(node), addrs[node])
	if s.sync != "" {
		fmt.Fprintf(&b, "  sync_interval: %s\n", s.sync)
	}
	b.WriteString("}\n")
	if s.nodes > 1 {
		fmt.Fprintf(&b, "cluster {\n  name: bench\n  listen: %q\n  routes: [\n", addrs[s.nodes+node])
		for _, url := range subject.URLs("nats", addrs[s.nodes:]) {
			fmt.Fprintf(&b, "    %q\n", url)
		}
		b.WriteString("  ]\n}\n")
	}
	return b.String()
}

// launch starts a node without waiting for it. createStream waits for the cluster.
func (v *service) launch(ctx context.Context, program, dir, config string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	const file = "nats.conf"
	if err := os.WriteFile(filepath.Join(dir, file), []byte(config), 0o644); err != nil {
		return err
	}
	node, err := subject.Run(ctx, subject.Command{Args: []string{program, "-c", file}, Dir: dir})
	if err != nil {
		return err
	}
	v.Group = append(v.Group, node)
	return nil
}

const (
	streamName  = "TASKS"
	waiting     = "tasks.at." // followed by the id of the task
	due         = "tasks.due"
	connections = 4 // shared by the callers

	createPoll = 100 * time.Millisecond
	pending    = 1 << 16 // unacknowledged messages in flight on one connection
)

// service is the servers and the connections to them.
type service struct {
	subject.Group
	urls     []string
	payloads sync.Map // by task id, for heartbeats

	shared []jetstream.JetStream
	next   int // index into shared
}

func (v *service) connect() (jetstream.JetStream, error) {
	conn, err := nats.Connect(strings.Join(v.urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(createPoll))
	if err != nil {
		return nil, err
	}
	return jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending))
}

// createStream retries until the cluster has made the stream.
func (v *service) createStream(ctx context.Context) error {
	for {
		err := v.tryStream(ctx)
		if err == nil {
			return nil
		}
		if !wait.For(ctx, createPoll) {
			return fmt.Errorf("the servers make no stream (%w): %w; see %s", ctx.Err(), err, v.Group[0].Log())
		}
	}
}

func (v *service) tryStream(ctx context.Context) error {
	js, err := v.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{waiting + "*", due}, Replicas: len(v.Group),
		Retention: jetstream.WorkQueuePolicy, AllowMsgSchedules: true, AllowDirect: true,
	})
	return err
}

func (v *service) Caller(context.Context) (subject.Caller, error) {
	if len(v.shared) < connections {
		js, err := v.connect()
		if err != nil {
			return nil, err
		}
		v.shared = append(v.shared, js)
	}
	v.next++
	return &caller{v.shared[v.next%len(v.shared)], &v.payloads}, nil
}

func (v *service) disconnect() {
	for _, js := range v.shared {
		js.Conn().Close()
	}
	v.shared = nil
}

// Restart closes the shared connections. Callers of before are closed and made anew.
func (v *service) Restart(ctx context.Context) error {
	v.disconnect()
	return v.Group.Restart(ctx)
}

// cluster is a service of several nodes.
type cluster struct{ *service }

// KillLeader kills the node that leads the stream.
func (v cluster) KillLeader() error {
	js, err := v.connect()
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, streamName)
	if err != nil {
		return err
	}
	group := stream.CachedInfo().Cluster
	if group == nil {
		return errors.New("the stream is of no cluster")
	}
	for i, node := range v.Group {
		if nodeName(i) == group.Leader {
			return node.KillAll()
		}
	}
	return fmt.Errorf("no node is the leader %q", group.Leader)
}

func (v *service) Stop() error {
	v.disconnect()
	return v.Group.Stop()
}
