package raftgroup

import (
	"sync"
	"time"
)

// metronome delays heartbeats to common moments, at which the wall clock is a multiple of grid. Each heartbeat wakes a
// few threads on both sides, and the Go scheduler then looks for more work for a while. Many groups that wake a node at
// separate moments cost it several times as much as their messages do. A heartbeat that comes a little late leaves at
// once. A proof of leadership cannot wait for these moments, so it hurries the heartbeats.
type metronome struct {
	grid time.Duration // 0: heartbeats leave at once

	mu     sync.Mutex
	hurry  int           // number of proofs under way
	rushed chan struct{} // closed while hurry > 0
}

func newMetronome(grid time.Duration) *metronome {
	return &metronome{grid: grid, rushed: make(chan struct{})}
}

// await waits for the next common moment, or until a proof hurries the heartbeats.
func (m *metronome) await() {
	if m.grid <= 0 {
		return
	}
	past := time.Duration(time.Now().UnixNano()) % m.grid
	if past < m.grid/5 {
		return // a little late
	}
	m.mu.Lock()
	rushed := m.rushed
	m.mu.Unlock()
	timer := time.NewTimer(m.grid - past)
	defer timer.Stop()
	select {
	case <-rushed:
	case <-timer.C:
	}
}

// rush lets heartbeats leave at once, until each rush is followed by a relax.
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
