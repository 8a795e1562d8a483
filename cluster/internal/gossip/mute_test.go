package gossip

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/belfryhq/belfry/internal/assert"
)

// A transport that is off loses outgoing and incoming messages. A transport that is on again loses none.
func TestMuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Bool
		w := newWire()
		m := Mutable(w, off.Load)
		exchange := func() (sent, packet, stream bool) {
			_, err := m.WriteToAddress([]byte("x"), memberlist.Address{})
			assert.Equal(t, err, nil)
			_, err = m.WriteTo([]byte("x"), "")
			assert.Equal(t, err, nil)
			here, there := net.Pipe()
			defer func() { _ = here.Close() }()
			go func() { w.packets <- &memberlist.Packet{}; w.streams <- there }()
			for range 2 {
				select {
				case <-m.PacketCh():
					packet = true
				case c := <-m.StreamCh():
					stream = true
					_ = c.Close()
				case <-time.After(time.Second):
				}
			}
			return len(w.said) == 2, packet, stream
		}
		off.Store(true)
		if sent, packet, stream := exchange(); sent || packet || stream {
			t.Errorf("off: sent %v, heard %v, %v", sent, packet, stream)
		}
		began := time.Now()
		if _, err := m.DialTimeout("", time.Minute); err == nil || time.Since(began) != time.Minute {
			t.Errorf("off: a dial that took %v: %v", time.Since(began), err)
		}
		off.Store(false)
		if sent, packet, stream := exchange(); !sent || !packet || !stream {
			t.Errorf("on again: sent %v, heard %v, %v", sent, packet, stream)
		}
		assert.Equal(t, m.Shutdown(), nil)
	})
}
