package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/wait"
)

// The errors of a message that came to nothing.
var (
	ErrDown    = errors.New("this process has ended")
	ErrRefused = errors.New("connection refused")
	ErrReset   = errors.New("connection reset")
	ErrTimeout = errors.New("no answer in time")
)

// Quality describes how one way between two hosts treats messages.
type Quality struct {
	Cut       bool          // no message passes
	Delay     time.Duration // least time on the way
	Jitter    time.Duration // further time on the way: up to this much, evenly drawn
	Loss      float64       // share of messages that are lost
	Duplicate float64       // share of Raft's requests that arrive once more, later
	Late      float64       // share of Raft's requests, pipelines apart, that arrive after their sender has given up
	Lateness  time.Duration // largest delay of a duplicate or late request
}

// Network connects hosts by name. Its methods are safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	rng   *rand.Rand
	calm  Quality
	hosts map[string]*Host
	ways  map[way]Quality // ways that differ from calm
	stats Stats
}

type way struct{ from, to string }

// Stats counts messages. Late and Duplicated count the requests drawn to be late or doubled. Snapshots counts the
// snapshots installed.
type Stats struct{ Lost, Late, Duplicated, Snapshots uint64 }

// New makes a network. All ways have the quality calm until Set changes one.
func New(seed uint64, calm Quality) *Network {
	return &Network{
		rng: rand.New(rand.NewPCG(seed, 0x77697265)), calm: calm, hosts: map[string]*Host{}, ways: map[way]Quality{},
	}
}

// Calm returns the quality of a way that no fault has changed.
func (n *Network) Calm() Quality { return n.calm }

// Set changes one direction between two hosts.
func (n *Network) Set(from, to string, q Quality) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways[way{from, to}] = q
}

// Heal gives every way the calm quality.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.ways)
}

// Stats returns the counts until now.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// Up adds a process under a name. The former process of that name must be down.
func (n *Network) Up(name string) *Host {
	h := newHost(n, name)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = h
	return h
}

// host returns the process of that name, or nil if none runs.
func (n *Network) host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[name]; h != nil && !h.isDown() {
		return h
	}
	return nil
}

// passage is the fate of one message.
type passage struct {
	lost  bool
	delay time.Duration
	late  time.Duration // arrives this long after its sender has given up; 0: in time
	again time.Duration // arrives once more, at least this much later; 0: it does not
}

// pass draws the fate of one message. Only Raft's requests can be late or arrive twice.
func (n *Network) pass(from, to string, request bool) passage {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, ok := n.ways[way{from, to}]
	if !ok {
		q = n.calm
	}
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

// Host is one process on the network. A host that is down stays down.
type Host struct {
	net  *Network
	name string
	life context.Context // ends with the process
	end  context.CancelFunc
	down <-chan struct{} // closed when the process has ended

	mu      sync.Mutex
	thawed  chan struct{}            // closed while the process is not frozen
	inboxes map[uint32]chan raft.RPC // by Raft group
}

// inboxRoom is how many requests an inbox holds. Senders of further requests wait.
const inboxRoom = 16

func newHost(n *Network, name string) *Host {
	h := &Host{net: n, name: name, thawed: make(chan struct{}), inboxes: map[uint32]chan raft.RPC{}}
	h.life, h.end = context.WithCancel(context.Background())
	h.down = h.life.Done()
	close(h.thawed)
	return h
}

// Name returns the name of the host.
func (h *Host) Name() string { return h.name }

// Down ends the process: no message leaves or reaches it any more.
func (h *Host) Down() { h.end() }

// Life returns a context that ends with the process.
func (h *Host) Life() context.Context { return h.life }

func (h *Host) isDown() bool {
	select {
	case <-h.down:
		return true
	default:
		return false
	}
}

// Freeze stops the process at its next step outside of itself (see Gate) until Thaw.
func (h *Host) Freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if isClosed(h.thawed) {
		h.thawed = make(chan struct{})
	}
}

// Thaw lets a frozen process go on.
func (h *Host) Thaw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !isClosed(h.thawed) {
		close(h.thawed)
	}
}

// Gate waits while the process is frozen. It returns false if the process has ended.
func (h *Host) Gate() bool {
	h.mu.Lock()
	thawed := h.thawed
	h.mu.Unlock()
	select {
	case <-thawed:
	case <-h.down:
	}
	return !h.isDown()
}

// Sleep waits for d. It returns false if the process ends first, or has ended already.
func (h *Host) Sleep(d time.Duration) bool { return wait.For(h.life, d) }

// inbox returns the channel on which requests for a group arrive.
func (h *Host) inbox(group uint32) chan raft.RPC {
	h.mu.Lock()
	defer h.mu.Unlock()
	box := h.inboxes[group]
	if box == nil {
		box = make(chan raft.RPC, inboxRoom)
		h.inboxes[group] = box
	}
	return box
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
