package raftgroup

import (
	"sync"
	"time"
)

// metronome lets heartbeats leave at common moments, those at which the wall clock is a multiple of grid. Each
// heartbeat wakes a few threads on both sides, and the Go scheduler then looks for more to do for a while: many groups
// that wake a node at moments of their own cost it several times what their messages do. A proof of leadership does not
// wait for that: it hurries the heartbeats.
type metronome struct {
	grid time.Duration // 0: heartbeats leave as they come

	mu     sync.Mutex
	hurry  int           // proofs under way
	rushed chan struct{} // closed while hurry > 0
}

func newMetronome(grid time.Duration) *metronome {
	return &metronome{grid: grid, rushed: make(chan struct{})}
}

// await waits for the next common moment, or for a proof that hurries.
func (m *metronome) await() {
	if m.grid <= 0 {
		return
	}
	m.mu.Lock()
	rushed := m.rushed
	m.mu.Unlock()
	timer := time.NewTimer(m.grid - time.Duration(time.Now().UnixNano())%m.grid)
	defer timer.Stop()
	select {
	case <-rushed:
	case <-timer.C:
	}
}

// rush lets heartbeats leave as they come until each call of rush is followed by one of relax.
func (m *metronome) rush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hurry++; m.hurry == 1 {
		close(m.rushed)
	}
}

func (m *metronome) relax() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hurry--; m.hurry == 0 {
		m.rushed = make(chan struct{})
	}
}
