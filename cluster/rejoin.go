package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

// folder holds the open disks of a restarting node's groups, before any of the groups runs.
type folder struct {
	mu     sync.Mutex
	disks  map[uint32]*raftdisk.Disk // by group
	unread map[uint32]error          // groups that cannot be opened, with the reasons
}

// newRun draws the nonce that identifies this start of the node.
func newRun(boot uint64, addr string) witness.Run {
	var nonce [8]byte
	for binary.BigEndian.Uint64(nonce[:]) == 0 {
		_, _ = rand.Read(nonce[:]) // never fails
	}
	return witness.Run{Boot: boot, Nonce: binary.BigEndian.Uint64(nonce[:]), Addr: addr}
}

// rejoin takes a node of a cluster back into its groups once other nodes have sent their records of it and these agree
// with its data folder.
func (n *Node) rejoin() error {
	n.openShardDisks()
	if err := n.ctx.Err(); err != nil {
		return err
	}
	if err := n.foreign(); err != nil {
		return err
	}
	n.check.Store(witness.NewCheck(n.checkConfig()))
	if !flawSkipsCheck() {
		if err := n.check.Load().Run(n.ctx); err != nil {
			return err
		}
	}
	if err := n.withRoom(n.takePart); err != nil {
		return err
	}
	n.workers.Go(n.tellGossip)
	return nil
}

func (n *Node) takePart() error {
	if err := n.identity.Confirm(); err != nil {
		return err
	}
	n.present.Store(true)
	return n.openControl()
}

func (n *Node) tellGossip() {
	if err := n.gossip.TakePart(); err != nil {
		n.cfg.Logger.Info("the others do not hear yet that this node takes part", "err", err)
	}
}

// standAside ends the start of a node that must not take part. The node goes on to answer other nodes' questions about
// its records of them, and refuses all other calls.
func (n *Node) standAside(refusal *witness.Refusal) {
	n.cfg.Logger.Error("this node must not take part", "reason", refusal.Reason, "advice", refusal.Advice)
	n.refusal.Store(refusal)
}

// Barred returns the reason why the node does not take part in its cluster, as yet or at all. The reason is empty if
// the node takes part, or is in no cluster yet.
func (n *Node) Barred() string {
	if refusal := n.refusal.Load(); refusal != nil {
		return "this node does not take part: " + refusal.Error()
	}
	if n.present.Load() {
		return ""
	}
	if check := n.check.Load(); check != nil {
		if waits := check.Status(); waits != "" {
			return waits
		}
	}
	return "this node is opening its data folder"
}

func (n *Node) checkConfig() witness.CheckConfig {
	cfg := witness.CheckConfig{
		Node: n.ID(), Run: n.runHere, Copied: n.identity.Copied(), Replicas: make(map[uint32]witness.Replica),
		Unread: make(map[uint32]bool), Ask: n.askWitness, AskAddr: n.askWitnessAt, Name: n.labelOf,
		Logger: n.cfg.Logger,
	}
	if own, known := n.book.Node(n.ID()); known {
		cfg.Addrs = []string{own.Registered}
	}
	for number, d := range n.folder.disks {
		cfg.Replicas[number] = witness.Replica{Term: d.Term(), Last: d.Last(), Holds: d.Holds, Voters: n.votersOf(number, d)}
	}
	for number := range n.folder.unread {
		cfg.Unread[number] = true
	}
	return cfg
}

// votersOf returns the voters of a group. A node whose replica does not know the voters of the control group yet uses
// the nodes of the promise by which the cluster was formed.
func (n *Node) votersOf(number uint32, d *raftdisk.Disk) []string {
	voters := d.Voters()
	if p, promised := n.identity.Promised(); number == controlNumber && len(voters) == 0 && promised &&
		p.ClusterID == n.ClusterID() {
		return p.Nodes
	}
	return voters
}

// labelOf returns a node's name, or "" if it is not known.
func (n *Node) labelOf(id string) string {
	known, _ := n.book.Node(id)
	return known.Name
}

func (n *Node) askWitness(ctx context.Context, node string, req *clusterpb.WitnessRequest) (
	*clusterpb.WitnessReply, error) {
	reply, err := n.peers.get(node).rpc.Witness(ctx, req)
	if err == nil && reply.Node != node {
		err = fmt.Errorf("node %s answers for node %s", reply.Node, node)
	}
	return reply, err
}

// askWitnessAt asks the process that listens at an address, if the process claims to be this very node.
func (n *Node) askWitnessAt(ctx context.Context, addr string, req *clusterpb.WitnessRequest) (
	_ *clusterpb.WitnessReply, err error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the peer port does TLS by itself
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return n.endpoint.DialAddr(ctx, addr)
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})), grpc.WithUnaryInterceptor(outgoing{n, n.ID()}.unary),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return clusterpb.NewPeerClient(conn).Witness(ctx, req)
}

// Witness answers another node, or a copy of this one, with this node's record of it.
func (s service) Witness(_ context.Context, req *clusterpb.WitnessRequest) (*clusterpb.WitnessReply, error) {
	return s.n.seen.Answer(req, s.n.runHere)
}

// openControlDisk opens this node's files of the control group. The node is useless without them.
func (n *Node) openControlDisk() error {
	d, err := n.diskOf(controlNumber)
	if err != nil {
		return err
	}
	return n.lost(controlNumber, d)
}

// openShardDisks opens this node's files of its shards. A shard whose files cannot be opened will not run; the others
// do.
func (n *Node) openShardDisks() {
	room := semaphore.NewWeighted(replicas.OpenAtOnce)
	var opening sync.WaitGroup
	defer opening.Wait()
	for _, number := range n.identity.Held() {
		if number == controlNumber {
			continue
		}
		if room.Acquire(n.ctx, 1) != nil {
			return
		}
		opening.Go(func() {
			defer room.Release(1)
			d, err := n.diskOf(number)
			if err == nil {
				err = n.lost(number, d)
			}
			if err != nil {
				n.folder.mu.Lock()
				defer n.folder.mu.Unlock()
				n.folder.unread[number] = err
			}
		})
	}
}

// openDisk opens the files of a group, and creates those of a new group.
func (n *Node) openDisk(number uint32) (*raftdisk.Disk, error) {
	cfg := raftdisk.Config{
		Dir: n.identity.GroupDir(number), Kind: n.cfg.LogStore, Existing: n.identity.Opened(number),
		Owner: n.owner(number), Journal: n.journal, Fatal: n.cfg.Fatal,
	}
	if number == controlNumber {
		cfg.Logger, cfg.Registerer = n.cfg.Logger.With("group", "control"), groupRegisterer(n.cfg.Registerer, number)
		return control.OpenDisk(cfg)
	}
	cfg.Logger, cfg.Registerer = n.cfg.Logger.With("shard", number), n.cfg.Registerer
	return shard.OpenDisk(number, cfg)
}

func (n *Node) owner(group uint32) *raftdisk.Owner {
	return &raftdisk.Owner{Cluster: n.ClusterID(), Node: n.ID(), Group: group}
}

// foreign returns an error if a group's folder belongs to another node. In that case no folder is trusted.
func (n *Node) foreign() error {
	for number, err := range n.folder.unread {
		if errors.Is(err, raftdisk.ErrForeign) {
			return fmt.Errorf("shard %d: %w", number, err)
		}
	}
	return nil
}

// lost returns an error if a replica lacks entries in this node's own record of it. An applied entry had been on its
// disk.
func (n *Node) lost(number uint32, d *raftdisk.Disk) error {
	return n.seen.Kept(number).Lost(d.Term(), d.Last())
}

// diskOf returns the open disk of a group. It opens the disk unless that has been tried before.
func (n *Node) diskOf(number uint32) (*raftdisk.Disk, error) {
	n.folder.mu.Lock()
	d, err := n.folder.disks[number], n.folder.unread[number]
	n.folder.mu.Unlock()
	if d != nil || err != nil {
		return d, err
	}
	if d, err = n.openDisk(number); err != nil {
		return nil, err
	}
	n.folder.mu.Lock()
	defer n.folder.mu.Unlock()
	n.folder.disks[number] = d
	return d, nil
}

// closeDisk closes the open disk of a group, so that it can be opened again.
func (n *Node) closeDisk(number uint32) error {
	n.folder.mu.Lock()
	d := n.folder.disks[number]
	delete(n.folder.disks, number)
	n.folder.mu.Unlock()
	return d.Close()
}

// closeDisks closes the disks that no group has taken over. A group closes its own disk, and a second close is
// harmless.
func (n *Node) closeDisks() error {
	var errs []error
	for _, d := range n.folder.disks {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// announce reports this start of the node to every node of the cluster, which records it.
func (n *Node) announce() {
	g := n.controlGroup()
	var told []string
	for {
		state, changed := g.Watch()
		for _, node := range state.Nodes {
			if node.Id != n.ID() && !slices.Contains(told, node.Id) {
				told = append(told, node.Id)
				n.workers.Go(func() { n.check.Load().Announce(n.ctx, node.Id) })
			}
		}
		select {
		case <-changed:
		case <-n.ctx.Done():
			return
		}
	}
}
