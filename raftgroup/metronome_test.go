package raftgroup

import (
	"testing"
	"testing/synctest"
	"time"
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
		<-time.After(3 * time.Millisecond)
		left := make(chan time.Duration)
		go func() { m.await(); left <- offset() }()
		synctest.Wait()
		m.rush()
		if at := <-left; at != 3*time.Millisecond {
			t.Errorf("after rush the heartbeat left at %v", at)
		}
		m.rush()
		m.relax()
		m.await()
		if offset() != 3*time.Millisecond {
			t.Error("the heartbeat waited although one rush is left")
		}
		m.relax()
		m.await()
		if offset() != 0 {
			t.Error("the heartbeat did not wait although no rush is left")
		}
	})
}
