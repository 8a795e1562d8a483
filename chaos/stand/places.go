package stand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// Each node has its own host in a network, so the ports are the same on all hosts.
const (
	httpPort = "8080"
	peerPort = "7070"
)

// names returns the names that a local cluster gives its nodes.
func names(nodes int) []string {
	all := make([]string, nodes)
	for i := range all {
		all[i] = "node-" + strconv.Itoa(i+1)
	}
	return all
}

// openNetwork makes a host for each node and the keys that the nodes need there. It moves the nodes' places to the
// hosts.
func openNetwork(ctx context.Context, cfg Config, places []local.Place) (*netlab.Network, error) {
	if err := makeCertificates(ctx, cfg.Binary, filepath.Join(cfg.Dir, "keys"), places); err != nil {
		return nil, err
	}
	nodes := names(len(places))
	n, err := netlab.New(netlab.Config{Hosts: nodes, Seed: cfg.Seed})
	if err != nil {
		return nil, err
	}
	outside := netip.PrefixFrom(n.Outside(), n.Outside().BitLen()).String()
	for i, name := range nodes {
		host := n.Host(name)
		places[i].HTTPAddr = net.JoinHostPort(host.Addr.String(), httpPort)
		places[i].PeerAddr = net.JoinHostPort(host.PeerAddr.String(), peerPort)
		places[i].Command = append(places[i].Command, host.Command...)
		places[i].Args = append(places[i].Args, "--allow-webhook-cidr", outside, "--allow-broker-cidr", outside)
	}
	return n, nil
}

// mayExhaust reports whether this program may open twice as many files as a node that may open n.
func mayExhaust(n int) bool {
	var own syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own)
	return err == nil && uint64(own.Cur) >= 2*uint64(n) //nolint:unconvert // it is signed on FreeBSD
}

// boundDescriptors bounds the number of files that each node may open.
func boundDescriptors(n int, places []local.Place) {
	for i := range places {
		places[i].Command = append(places[i].Command, "sh", "-c", "ulimit -n "+strconv.Itoa(n)+` && exec "$@"`, "sh")
	}
}

// ReceiverHost returns the address that receivers must listen on for the nodes to reach them.
func (s *Stand) ReceiverHost() string {
	if s.Network != nil {
		return s.Network.Outside().String()
	}
	return "127.0.0.1"
}

// ErrPatient means that the nodes wait so long for an absent one that no fault can wait for its replacement.
var ErrPatient = errors.New("nodes that replace an absent one soon: --replace-after sets the time")

// ErrOneZone means that the nodes have no zones.
var ErrOneZone = errors.New("nodes in three zones or more: --zones spreads them")

// Replaces returns ErrPatient if the cluster does not make the replicas of an absent node anew within a round.
func (s *Stand) Replaces() error {
	if s.replaceAfter == 0 {
		return ErrPatient
	}
	return nil
}

// HasZones returns an error if no zone can be lost while the other zones keep a majority of each shard's replicas and
// make the lost ones anew.
func (s *Stand) HasZones() error {
	if len(s.zones) < fewestZones {
		return ErrOneZone
	}
	return s.Replaces()
}

const fewestZones = 3

// setZones gives the zones to the places in turn, and returns the nodes by zone.
func setZones(zones int, places []local.Place) [][]string {
	if zones == 0 {
		return nil
	}
	all := make([][]string, zones)
	for i, name := range names(len(places)) {
		zone := i % zones
		places[i].Args = append(places[i].Args, "--zone", "zone-"+strconv.Itoa(zone+1))
		all[zone] = append(all[zone], name)
	}
	return all
}

// Zones returns the nodes in the cluster by zone.
func (s *Stand) Zones() [][]string {
	spare := s.Spare()
	var all [][]string
	for _, nodes := range s.zones {
		all = append(all, slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return slices.Contains(spare, n) }))
	}
	return all
}

// AwaitReplicas waits until each shard has all its replicas on live nodes, spread over their zones, and none on the
// lost nodes, which are given by their ids.
func (s *Stand) AwaitReplicas(ctx context.Context, lost ...string) error {
	return s.await(ctx, "the replicas are not whole", func(view *client.Cluster) string { return lacking(view, lost) })
}

// lacking returns a reason why the replicas of the shards are not whole, or "".
func lacking(view *client.Cluster, lost []string) string {
	zones := map[string]bool{}
	for _, n := range view.Nodes {
		if n.Alive && !slices.Contains(lost, n.ID) {
			zones[zoneOf(n)] = true
		}
	}
	for _, shard := range view.Shards {
		if why := lackingAt(view, shard, lost, len(zones)); why != "" {
			return fmt.Sprintf("shard %d: %s (on its way to %v: %s)", shard.ID, why, shard.Target, shard.Waits)
		}
	}
	return ""
}

func lackingAt(view *client.Cluster, shard client.Shard, lost []string, zones int) string {
	used := map[string]bool{}
	for _, r := range shard.Replicas {
		node := view.Node(r.Node)
		switch {
		case slices.Contains(lost, r.Node):
			return "a replica is on a lost node"
		case node == nil || !node.Alive || !r.Voter:
			return "a replica does not vote, or its node is down"
		}
		used[zoneOf(*node)] = true
	}
	switch wanted := view.Replication.Wanted; {
	case len(shard.Replicas) != wanted:
		return fmt.Sprintf("%d replicas of %d", len(shard.Replicas), wanted)
	case len(used) < min(wanted, zones):
		return fmt.Sprintf("its replicas are in %d zones, and %d have live nodes", len(used), zones)
	}
	return ""
}

// zoneOf returns the zone of a node, which is the node itself if it has none.
func zoneOf(n client.Node) string {
	if n.Zone == "" {
		return "node/" + n.ID
	}
	return n.Zone
}
