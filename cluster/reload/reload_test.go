package reload_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/reload"
)

// Each reader hears of a receive. A reader that is slow hears of several at once, and holds up no other.
func TestFanTellsAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fan reload.Fan
		from := make(chan struct{})
		slow, quick := fan.Reader(), fan.Reader()
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			fan.Run(ctx, from)
			close(ended)
		}()
		for range 3 {
			from <- struct{}{}
			<-quick
		}
		synctest.Wait()
		<-slow
		select {
		case <-slow:
			t.Error("a slow reader is told twice")
		default:
		}
		cancel()
		<-ended
	})
}

// Loop looks at its interval, and at once when it is told to.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		again := make(chan struct{})
		var usual, told int
		ended := make(chan struct{})
		go func() {
			reload.Loop(ctx, 0, again, func(now bool) {
				if now {
					told++
				} else {
					usual++
				}
			})
			close(ended)
		}()
		synctest.Wait()
		again <- struct{}{}
		time.Sleep(3*reload.Every + time.Millisecond)
		cancel()
		<-ended
		if usual != 3 || told != 1 {
			t.Errorf("%d looks at the interval and %d that were told", usual, told)
		}
	})
}
