package netlab

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
)

// Config describes a network. Hosts must be given.
type Config struct {
	Hosts []string // names of the hosts
	Seed  uint64   // of all random choices
}

const maxHosts = 200

func (c Config) validate() error {
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		return fmt.Errorf("%d hosts: 1 to %d can be joined", len(c.Hosts), maxHosts)
	}
	for i, name := range c.Hosts {
		if name == "" || slices.Contains(c.Hosts[:i], name) {
			return fmt.Errorf("host %q has no name or one that is there twice", name)
		}
	}
	return nil
}

// Host is a place where a process can run.
type Host struct {
	Addr     netip.Addr // address for this process: HTTP and webhooks
	PeerAddr netip.Addr // address for the other hosts
	Command  []string   // prefix that runs a command on this host; exec keeps the process
}

// Network is a set of hosts and the cables between them. Its methods are safe for concurrent use.
type Network struct {
	names   []string
	block   *block
	hosts   []*host
	fabric  *fabric
	outside netip.Addr
}

// New makes the hosts and connects them.
func New(cfg Config) (*Network, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("netlab: %w", err)
	}
	block, err := claimBlock()
	if err != nil {
		return nil, fmt.Errorf("netlab: %w", err)
	}
	n := &Network{names: slices.Clone(cfg.Hosts), block: block, outside: block.outside()}
	ports := make([]io.ReadWriter, len(cfg.Hosts))
	for i := range cfg.Hosts {
		h, err := newHost(block, i, len(cfg.Hosts))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("netlab: host %s: %w", cfg.Hosts[i], err), n.Close())
		}
		n.hosts = append(n.hosts, h)
		ports[i] = h.port
	}
	n.fabric = newFabric(ports, cfg.Seed)
	n.fabric.start()
	return n, nil
}

// Outside returns this process's address for the hosts, the same on all of them.
func (n *Network) Outside() netip.Addr { return n.outside }

// Host returns the host with that name. It panics if there is none.
func (n *Network) Host(name string) Host { return n.hosts[n.index(name)].Host }

// Impair adds q to the quality of the direction between two hosts, until lift is called or the network is healed.
func (n *Network) Impair(from, to string, q Quality) (lift func()) { return n.line(from, to).impose(q) }

// Quality returns the current quality of the direction between two hosts.
func (n *Network) Quality(from, to string) Quality { return n.line(from, to).now() }

func (n *Network) line(from, to string) *line {
	l := n.fabric.lines[n.index(from)][n.index(to)]
	if l == nil {
		panic("netlab: no line leads from " + from + " to itself")
	}
	return l
}

func (n *Network) index(name string) int {
	i := slices.Index(n.names, name)
	if i < 0 {
		panic(fmt.Sprintf("netlab: there is no host %q", name))
	}
	return i
}

// CutOutside cuts a host off from this process, in one direction or both. The cut lasts until every cut of the
// direction is lifted, or the network is healed. A host that is cut off is silent: no packet is answered or refused.
func (n *Network) CutOutside(name string, toHost, fromHost bool) (lift func() error, err error) {
	return n.hosts[n.index(name)].outside.cut(toHost, fromHost)
}

// Heal lifts all impairments and cuts.
func (n *Network) Heal() error {
	n.fabric.heal()
	var failed []error
	for _, h := range n.hosts {
		failed = append(failed, h.outside.heal())
	}
	return errors.Join(failed...)
}

// Close takes the network down. The processes on the hosts should have ended.
func (n *Network) Close() error {
	var failed []error
	for _, h := range n.hosts {
		failed = append(failed, h.close())
	}
	if n.fabric != nil {
		n.fabric.run.Wait()
	}
	return errors.Join(append(failed, n.block.close())...)
}
