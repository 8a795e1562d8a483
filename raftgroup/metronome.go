package raftgroup

import (
	"sync"
	"time"
)

// metronome makes Raft send a leader's heartbeats at common moments, at which the wall clock is a multiple of beat.
// Raft's own timers are random, one for each follower of each group. Each of them wakes a thread, and the Go scheduler
// then looks for more work for a while: many groups that wake a node at separate moments cost it several times as much
// as their messages do. Raft's timers remain for a leader whose main loop cannot hear, because it waits for its disk.
type metronome struct {
	beat time.Duration
	send func() // makes Raft send heartbeats to all followers

	mu    sync.Mutex
	armed bool // the next common moment is waited for
}

// sent arranges the heartbeats of the next common moment after those that are being sent.
func (m *metronome) sent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.armed {
		return
	}
	m.armed = true
	past := time.Duration(time.Now().UnixNano()) % m.beat
	time.AfterFunc(m.beat-past, m.strike)
}

func (m *metronome) strike() {
	m.send()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed = false
}
