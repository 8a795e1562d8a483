package stand

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/belfryhq/belfry/chaos/netlab"
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
func openNetwork(cfg Config, places []local.Place) (*netlab.Network, error) {
	keys, err := newKeyring(filepath.Join(cfg.Dir, "keys"))
	if err != nil {
		return nil, fmt.Errorf("the nodes' keys: %w", err)
	}
	nodes := names(len(places))
	for i, name := range nodes {
		args, err := keys.args(name)
		if err != nil {
			return nil, err
		}
		places[i].Args = append(places[i].Args, args...)
	}
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
