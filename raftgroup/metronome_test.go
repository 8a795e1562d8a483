package raftgroup

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestMetronome checks that heartbeats sent at any moment bring about one beat, at the next common moment.
func TestMetronome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beat = 25 * time.Millisecond
		sent := make(chan time.Duration, 10) // offsets to the common moment before
		m := &metronome{beat: beat, send: func() { sent <- time.Duration(time.Now().UnixNano()) % beat }}
		check := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			assert.MustEqual(t, len(sent), want, when)
			for range want {
				assert.Equal(t, <-sent, 0, when)
			}
		}
		<-time.After(7 * time.Millisecond)
		m.sent()
		<-time.After(time.Millisecond)
		m.sent()
		<-time.After(10 * beat)
		check(1, "after two heartbeats within a beat")
		m.sent()
		check(0, "before the next beat")
		<-time.After(beat)
		check(1, "after one more")

		count := m.send
		m.send = func() {
			if count(); len(sent) < 3 {
				m.sent() // the heartbeats leave at once
			}
		}
		m.sent()
		<-time.After(10 * beat)
		check(3, "after three beats, two of them with heartbeats")
	})
}
