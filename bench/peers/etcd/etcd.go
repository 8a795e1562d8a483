package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	members = 3
	clients = 4 // shared by the callers

	tryTime = 5 * time.Second        // time limit of a call that is repeated
	tryEach = 100 * time.Millisecond // pause between two tries
)

// Subject returns three members of etcd.
func Subject() subject.Subject {
	return subject.Subject{
		Name:    "etcd, 3 members",
		Promise: subject.Promise{Nodes: members, Replicated: true, Fsync: subject.FsyncEachWrite},
		Need:    func() error { _, err := installed.Etcd(); return err },
		Start:   start,
	}
}

func start(ctx context.Context, dir string) (subject.Service, error) {
	program, err := installed.Etcd()
	if err != nil {
		return nil, err
	}
	addrs, err := local.FreeAddrs(2 * members) // for clients and for the other members
	if err != nil {
		return nil, err
	}
	v := &service{urls: subject.URLs("http", addrs[:members])}
	peers := subject.URLs("http", addrs[members:])
	for i := range members {
		args := append([]string{program}, v.flags(i, peers)...)
		if err := v.launch(ctx, filepath.Join(dir, memberName(i)), args); err != nil {
			return nil, errors.Join(err, v.Stop())
		}
	}
	if err := v.await(ctx); err != nil {
		return nil, errors.Join(err, v.Stop())
	}
	return v, nil
}

func memberName(i int) string { return fmt.Sprintf("m%d", i+1) }

// service is the members and the clients that callers share.
type service struct {
	subject.Group
	urls     []string // for clients, by member
	payloads sync.Map // by task id, for touches

	shared []*clientv3.Client
	next   int // index into shared
}

// flags returns the flags of a member. peers are the URLs of the members for each other.
func (v *service) flags(member int, peers []string) []string {
	cluster := make([]string, len(peers))
	for i, url := range peers {
		cluster[i] = memberName(i) + "=" + url
	}
	return []string{
		"--name", memberName(member), "--data-dir", "data", "--initial-cluster", strings.Join(cluster, ","),
		"--listen-client-urls", v.urls[member], "--advertise-client-urls", v.urls[member],
		"--listen-peer-urls", peers[member], "--initial-advertise-peer-urls", peers[member],
	}
}

// launch starts a member without waiting for it. await waits for the cluster.
func (v *service) launch(ctx context.Context, dir string, args []string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	member, err := subject.Run(ctx, subject.Command{Args: args, Dir: dir})
	if err != nil {
		return err
	}
	v.Group = append(v.Group, member)
	return nil
}

// await returns when a majority answers.
func (v *service) await(ctx context.Context) error {
	client, err := v.client()
	if err != nil {
		return err
	}
	for {
		try, cancel := context.WithTimeout(ctx, tryTime)
		_, err := client.Get(try, prefix) // which a leader has to confirm
		cancel()
		if err == nil {
			return nil
		}
		if !wait.For(ctx, tryEach) {
			return fmt.Errorf("the members elect no leader (%w): %w; see %s", ctx.Err(), err, v.Group[0].Log())
		}
	}
}

// client returns the shared clients in turn.
func (v *service) client() (*clientv3.Client, error) {
	if len(v.shared) < clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: v.urls})
		if err != nil {
			return nil, err
		}
		v.shared = append(v.shared, client)
	}
	v.next++
	return v.shared[v.next%len(v.shared)], nil
}

func (v *service) Caller(context.Context) (subject.Caller, error) {
	client, err := v.client()
	if err != nil {
		return nil, err
	}
	return &caller{client, &v.payloads}, nil
}

// KillLeader kills the member that leads.
func (v *service) KillLeader() error {
	client, err := v.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tryTime)
	defer cancel()
	for i, url := range v.urls {
		status, err := client.Status(ctx, url)
		if err != nil {
			return err
		}
		if status.Leader == status.Header.MemberId {
			return v.Group[i].KillAll()
		}
	}
	return errors.New("no member is the leader")
}

func (v *service) Stop() error {
	var closed error
	for _, client := range v.shared {
		closed = errors.Join(closed, client.Close())
	}
	v.shared = nil
	return errors.Join(closed, v.Group.Stop())
}
