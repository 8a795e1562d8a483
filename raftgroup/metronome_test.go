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
		var sent []time.Duration // offsets to the common moment before
		m := &metronome{beat: beat, send: func() { sent = append(sent, time.Duration(time.Now().UnixNano())%beat) }}
		<-time.After(7 * time.Millisecond)
		m.sent()
		<-time.After(time.Millisecond)
		m.sent()
		<-time.After(10 * beat)
		assert.EqualSlices(t, sent, []time.Duration{0}, "after two heartbeats within a beat")
		m.sent()
		synctest.Wait()
		assert.Equal(t, len(sent), 1, "before the next beat")
		<-time.After(beat)
		assert.EqualSlices(t, sent, []time.Duration{0, 0}, "after one more")
	})
}
