package netlab

import (
	"io"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// socket is a port in memory.
type socket struct {
	out chan []byte // frames from the host; closed: the host is down
	in  [][]byte    // frames to the host
}

func (s *socket) Read(frame []byte) (int, error) {
	sent, ok := <-s.out
	if !ok {
		return 0, io.EOF
	}
	return copy(frame, sent), nil
}

func (s *socket) Write(frame []byte) (int, error) {
	s.in = append(s.in, slices.Clone(frame))
	return len(frame), nil
}

func frame(to mac, body string) []byte {
	return slices.Concat(to[:], []byte("from..\x08\x00"), []byte(body))
}

// play sends frames from the first of three hosts, and returns the sockets with the frames that each host got.
func play(prepare func(*fabric), frames ...[]byte) (sockets [3]*socket) {
	ports := make([]io.ReadWriter, len(sockets))
	for i := range sockets {
		sockets[i] = &socket{out: make(chan []byte)}
		ports[i] = sockets[i]
	}
	f := newFabric(ports, 1)
	prepare(f)
	f.start()
	for _, frame := range frames {
		sockets[0].out <- frame
	}
	for _, s := range sockets {
		close(s.out)
	}
	f.run.Wait()
	return sockets
}

func TestFramesGoWhereTheyAreSent(t *testing.T) {
	got := play(func(*fabric) {}, frame(hostMAC(1), "one"), frame(hostMAC(2), "two"), frame(hostMAC(1), "three"))
	if len(got[0].in) != 0 || len(got[1].in) != 2 || len(got[2].in) != 1 {
		t.Fatalf("%q, %q, %q", got[0].in, got[1].in, got[2].in)
	}
	assert.Equal(t, string(got[1].in[1]), string(frame(hostMAC(1), "three")))
}

// Frames to unknown addresses, to all hosts or to their own sender are dropped, and so are bytes that are no frame.
func TestStrayFrames(t *testing.T) {
	got := play(func(*fabric) {},
		frame(hostMAC(0), "to itself"), frame(hostMAC(3), "to nobody"), frame(mac{2, 2, 2, 2, 0, 1}, "to a stranger"),
		frame(mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "to all"), frame(mac{0x33, 0x33, 0, 0, 0, 1}, "to many"),
		[]byte("short"), nil,
	)
	for i, s := range got {
		if len(s.in) > 0 {
			t.Errorf("host %d got %q", i, s.in)
		}
	}
}

func TestDirectionsAreApart(t *testing.T) {
	cut := func(from, to int) func(*fabric) {
		return func(f *fabric) { f.lines[from][to].impose(Quality{Cut: true}) }
	}
	frames := [][]byte{frame(hostMAC(1), "one"), frame(hostMAC(2), "two")}
	if got := play(cut(0, 1), frames...); len(got[1].in) != 0 || len(got[2].in) != 1 {
		t.Errorf("cut to 1: %q, %q", got[1].in, got[2].in)
	}
	if got := play(cut(1, 0), frames...); len(got[1].in) != 1 || len(got[2].in) != 1 {
		t.Errorf("cut from 1: %q, %q", got[1].in, got[2].in)
	}
	healed := func(f *fabric) { cut(0, 1)(f); f.heal() }
	if got := play(healed, frames...); len(got[1].in) != 1 {
		t.Errorf("healed: %q", got[1].in)
	}
}

func TestHostsByAddress(t *testing.T) {
	for _, i := range []int{0, 1, 199, 300} {
		if got := hostOf(hostMAC(i), 301); got != i {
			t.Errorf("the address of host %d is taken for host %d", i, got)
		}
	}
	assert.Equal(t, hostOf(hostMAC(301), 301), -1, "the address of an unknown host is taken for host")
}
