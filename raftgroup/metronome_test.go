package raftgroup

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestMetronome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grid = 25 * time.Millisecond
		m := newMetronome(grid)
		offset := func() time.Duration { return time.Duration(time.Now().UnixNano()) % grid }
		<-time.After(7 * time.Millisecond)
		m.await()
		if offset() != 0 {
			t.Errorf("left %v after a common moment", offset())
		}
		<-time.After(4 * time.Millisecond)
		m.await()
		assert.Equal(t, offset(), 4*time.Millisecond, "the heartbeat was a little late, and left at")
		<-time.After(3 * time.Millisecond)
		left := make(chan time.Duration)
		go func() { m.await(); left <- offset() }()
		synctest.Wait()
		m.rush()
		assert.Equal(t, <-left, 7*time.Millisecond, "after rush the heartbeat left at")
		m.rush()
		m.relax()
		m.await()
		assert.Equal(t, offset(), 7*time.Millisecond, "the heartbeat waited although one rush is left")
		m.relax()
		m.await()
		assert.Equal(t, offset(), 0, "the heartbeat did not wait although no rush is left")
	})
}
