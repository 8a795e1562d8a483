package shard

import (
	"sync"
	"time"
)

// pacer lets heartbeats leave at common moments, those at which the wall clock is a multiple of grid. Each wakes a few
// threads on both sides, and the Go scheduler then looks for more to do for a while: many groups that wake a node at
// moments of their own cost it several times what their messages do. Whoever waits for a proof of leadership does not
// wait for that.
type pacer struct {
	grid time.Duration // 0: no pacing

	mu    sync.Mutex
	hurry int           // proofs under way
	rush  chan struct{} // closed while hurry > 0
}

func newPacer(grid time.Duration) *pacer {
	return &pacer{grid: grid, rush: make(chan struct{})}
}

// await waits for the next common moment, or for somebody in a hurry.
func (p *pacer) await() {
	if p.grid <= 0 {
		return
	}
	p.mu.Lock()
	rush := p.rush
	p.mu.Unlock()
	timer := time.NewTimer(p.grid - time.Duration(time.Now().UnixNano())%p.grid)
	defer timer.Stop()
	select {
	case <-rush:
	case <-timer.C:
	}
}

func (p *pacer) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurry++; p.hurry == 1 {
		close(p.rush)
	}
}

func (p *pacer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurry--; p.hurry == 0 {
		p.rush = make(chan struct{})
	}
}
