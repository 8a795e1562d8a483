package shard

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grid = 25 * time.Millisecond
		p := newPacer(grid)
		offset := func() time.Duration { return time.Duration(time.Now().UnixNano()) % grid }
		<-time.After(7 * time.Millisecond)
		p.await()
		if offset() != 0 {
			t.Errorf("left %v after a common moment", offset())
		}
		<-time.After(3 * time.Millisecond)
		left := make(chan time.Duration)
		go func() { p.await(); left <- offset() }()
		synctest.Wait()
		p.begin()
		if at := <-left; at != 3*time.Millisecond {
			t.Errorf("with somebody in a hurry it left at %v", at)
		}
		p.begin()
		p.end()
		p.await()
		if offset() != 3*time.Millisecond {
			t.Error("it waited although somebody is still in a hurry")
		}
		p.end()
		p.await()
		if offset() != 0 {
			t.Error("it did not wait although nobody is in a hurry")
		}
	})
}
