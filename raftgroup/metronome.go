package raftgroup

import (
	"sync/atomic"
	"time"
)

// metronome makes Raft send a leader's heartbeats at common moments, at which the wall clock is a multiple of beat.
// Raft's own timers are random, one for each follower of each group. Each of them wakes a thread, and the Go scheduler
// then looks for more work for a while: many groups that wake a node at separate moments cost it several times as much
// as their messages do. Raft's timers remain for a leader whose main loop cannot hear, because it waits for its disk.
type metronome struct {
	beat  time.Duration
	send  func()      // requests heartbeats to all followers
	armed atomic.Bool // the timer of the next beat runs
}

// sent notes the sending of a heartbeat, and starts the timer of the next beat unless it runs.
func (m *metronome) sent() {
	if !m.armed.CompareAndSwap(false, true) {
		return
	}
	past := time.Duration(time.Now().UnixNano()) % m.beat
	time.AfterFunc(m.beat-past, func() {
		m.armed.Store(false) // before the heartbeats of this beat, which start the timer of the next
		m.send()
	})
}
