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
	Hosts []string // their names
	Seed  uint64   // of all that happens by chance
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

// Host is where a process can run.
type Host struct {
	Addr     netip.Addr // towards this process: HTTP and webhooks
	PeerAddr netip.Addr // among the hosts
	Command  []string   // runs the command that is appended to it on this host, by exec: the process is the same one
}

// Network is a set of hosts and what joins them. It is safe for concurrent use.
type Network struct {
	names   []string
	block   *block
	hosts   []*host
	fabric  *fabric
	outside netip.Addr
}

// New makes the hosts and joins them.
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

// Outside is this process's address as the hosts see it, the same on all of them.
func (n *Network) Outside() netip.Addr { return n.outside }

// Host is the one with that name, which must be there.
func (n *Network) Host(name string) Host { return n.hosts[n.index(name)].Host }

// Impair lets something happen to the packets from one host to another, on top of what happens to them already, until
// lift is called or the network is healed.
func (n *Network) Impair(from, to string, q Quality) (lift func()) { return n.line(from, to).impose(q) }

// Quality is what happens to the packets from one host to another now.
func (n *Network) Quality(from, to string) Quality { return n.line(from, to).now() }

// Stats counts the frames from one host to another since the beginning.
func (n *Network) Stats(from, to string) Stats { return n.line(from, to).counts() }

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

// CutOutside cuts a host off from this process, in one direction or both, until lift is called as often as it was cut,
// or the network is healed. Nothing is answered then, and nothing refused.
func (n *Network) CutOutside(name string, toHost, fromHost bool) (lift func() error, err error) {
	return n.hosts[n.index(name)].outside.cut(toHost, fromHost)
}

// Heal makes everything sound.
func (n *Network) Heal() error {
	n.fabric.heal()
	var failed []error
	for _, h := range n.hosts {
		failed = append(failed, h.outside.heal())
	}
	return errors.Join(failed...)
}

// Close takes everything down. The processes on the hosts should have ended.
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
