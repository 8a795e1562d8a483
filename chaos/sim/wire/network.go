package wire

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Why a message came to nothing.
var (
	ErrDown    = errors.New("this process has ended")
	ErrRefused = errors.New("connection refused")
	ErrReset   = errors.New("connection reset")
	ErrTimeout = errors.New("no answer in time")
)

// Quality is what one way between two hosts does to messages.
type Quality struct {
	Cut       bool          // nothing passes
	Delay     time.Duration // at least,
	Jitter    time.Duration // and on top of it up to this much, evenly
	Loss      float64       // share of messages that are lost
	Duplicate float64       // share of requests of Raft's that arrive once more, later
	Late      float64       // share of requests of Raft's that arrive when their sender has given up
	Lateness  time.Duration // how much later those two come at most
}

// Network connects hosts by name. Its methods are safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	rng   *rand.Rand
	calm  Quality
	hosts map[string]*Host
	ways  map[way]Quality // that differ from calm
	stats Stats
}

type way struct{ from, to string }

// Stats counts messages.
type Stats struct{ Sent, Lost, Late, Duplicated, Refused, Snapshots uint64 }

// New makes a network whose ways all have the quality calm until Set gives one another.
func New(seed uint64, calm Quality) *Network {
	return &Network{
		rng: rand.New(rand.NewPCG(seed, 0x77697265)), calm: calm, hosts: map[string]*Host{}, ways: map[way]Quality{},
	}
}

// Calm is the quality of a way that is as it should be.
func (n *Network) Calm() Quality { return n.calm }

// Set changes one direction between two hosts.
func (n *Network) Set(from, to string, q Quality) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways[way{from, to}] = q
}

// Heal makes every way calm.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.ways)
}

// Stats is what was counted until now.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// Up starts a process under this name. The one that had it before must be down.
func (n *Network) Up(name string) *Host {
	h := newHost(n, name)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = h
	return h
}

// host is the process of that name, nil if none runs.
func (n *Network) host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[name]; h != nil && !h.isDown() {
		return h
	}
	return nil
}

// passage is what becomes of one message.
type passage struct {
	lost  bool
	delay time.Duration
	late  time.Duration // it arrives this much after its sender has given up; 0: in time
	again time.Duration // it arrives once more, this much later; 0: it does not
}

// pass decides about one message. Only requests of Raft's can be late or come twice.
func (n *Network) pass(from, to string, request bool) passage {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, ok := n.ways[way{from, to}]
	if !ok {
		q = n.calm
	}
	n.stats.Sent++
	if q.Cut || q.Loss > 0 && n.rng.Float64() < q.Loss {
		n.stats.Lost++
		return passage{lost: true}
	}
	p := passage{delay: q.Delay + n.upTo(q.Jitter)}
	if !request {
		return p
	}
	if q.Duplicate > 0 && n.rng.Float64() < q.Duplicate {
		n.stats.Duplicated++
		p.again = 1 + n.upTo(q.Lateness)
	}
	if q.Late > 0 && n.rng.Float64() < q.Late {
		n.stats.Late++
		p.late = 1 + n.upTo(q.Lateness)
	}
	return p
}

func (n *Network) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(n.rng.Int64N(int64(d) + 1))
}

func (n *Network) installed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Snapshots++
}

func (n *Network) refused() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Refused++
	return ErrRefused
}
