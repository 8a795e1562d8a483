package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfryhq/belfry/bench/subject"
)

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
	nodes    []*subject.Process
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
	poll := time.NewTicker(createPoll)
	defer poll.Stop()
	for {
		err := v.tryStream(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the servers make no stream (%w): %w; see %s", ctx.Err(), err, v.nodes[0].Log())
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
		Name: streamName, Subjects: []string{waiting + "*", due}, Replicas: len(v.nodes),
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

func (v *service) PIDs() []int {
	var pids []int
	for _, node := range v.nodes {
		pids = append(pids, node.PIDs()...)
	}
	return pids
}

func (v *service) each(do func(node *subject.Process) error) error {
	var all error
	for _, node := range v.nodes {
		all = errors.Join(all, do(node))
	}
	return all
}

func (v *service) KillAll() error { return v.each((*subject.Process).Kill) }

// Restart closes the shared connections. Callers of before are closed and made anew.
func (v *service) Restart(context.Context) error {
	v.disconnect()
	return v.each((*subject.Process).Launch)
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
	for i, node := range v.nodes {
		if nodeName(i) == group.Leader {
			return node.Kill()
		}
	}
	return fmt.Errorf("no node is the leader %q", group.Leader)
}

func (v *service) Stop() error {
	v.disconnect()
	return v.each(func(node *subject.Process) error { return node.Stop(syscall.SIGTERM) })
}
