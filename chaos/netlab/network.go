package netlab

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
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

// cable connects a host with this process. It can only be cut, in each direction.
type cable struct {
	set func(cutToHost, cutFromHost bool) error

	mu       sync.Mutex // guards the fields below
	toHost   int        // number of cuts that are not lifted
	fromHost int
	healed   int // number of heals: a lift of an earlier cut does nothing
}

// cut adds a cut until lift is called.
func (c *cable) cut(toHost, fromHost bool) (lift func() error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.healed
	err = c.add(toHost, fromHost, +1)
	return sync.OnceValue(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.healed != before {
			return nil
		}
		return c.add(toHost, fromHost, -1)
	}), err
}

func (c *cable) add(toHost, fromHost bool, n int) error {
	if toHost {
		c.toHost += n
	}
	if fromHost {
		c.fromHost += n
	}
	return c.set(c.toHost > 0, c.fromHost > 0)
}

func (c *cable) heal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healed++
	c.toHost, c.fromHost = 0, 0
	return c.set(false, false)
}

// Quality describes the treatment of packets in one direction between two hosts. Its zero value is a sound cable.
type Quality struct {
	Cut       bool          // no packet gets through, and packets under way are lost
	Delay     time.Duration // of each packet
	Jitter    time.Duration // evenly distributed addition to the delay, at most this long
	Loss      float64       // share of packets that are lost
	Duplicate float64       // share of packets that arrive twice
	Reorder   float64       // share that later packets overtake; the others keep their order, whatever the jitter
}

// with returns the quality of a direction that has both q and p.
func (q Quality) with(p Quality) Quality {
	either := func(a, b float64) float64 { return 1 - (1-a)*(1-b) }
	return Quality{
		Cut: q.Cut || p.Cut, Delay: q.Delay + p.Delay, Jitter: q.Jitter + p.Jitter,
		Loss: either(q.Loss, p.Loss), Duplicate: either(q.Duplicate, p.Duplicate), Reorder: either(q.Reorder, p.Reorder),
	}
}

func (q Quality) String() string {
	if q.Cut {
		return "cut"
	}
	var parts []string
	if q.Delay > 0 {
		parts = append(parts, fmt.Sprintf("delay %v", q.Delay))
	}
	if q.Jitter > 0 {
		parts = append(parts, fmt.Sprintf("jitter %v", q.Jitter))
	}
	for _, share := range []struct {
		name  string
		value float64
	}{{"loss", q.Loss}, {"duplicates", q.Duplicate}, {"reordered", q.Reorder}} {
		if share.value > 0 {
			parts = append(parts, fmt.Sprintf("%s %.3g%%", share.name, 100*share.value))
		}
	}
	if len(parts) == 0 {
		return "sound"
	}
	return strings.Join(parts, ", ")
}
