package wire

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

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
func (h *Host) Sleep(d time.Duration) bool {
	if d <= 0 {
		return !h.isDown()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.down:
		return false
	}
}

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
