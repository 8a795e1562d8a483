package netlab

import (
	"io"
	"math/rand/v2"
	"sync"
)

// mac is an Ethernet address.
type mac [6]byte

// hostMAC returns the address of the i-th host for its peers. It is a locally administered address.
func hostMAC(i int) mac { return mac{0x02, 0xbe, 0x1f, 0, byte(i >> 8), byte(i)} }

// hostOf returns the number of the host with that address; -1: none.
func hostOf(m mac, hosts int) int {
	i := int(m[4])<<8 | int(m[5])
	if i >= hosts || m != hostMAC(i) {
		return -1
	}
	return i
}

// fabric connects the ports of the hosts. It forwards frames by destination. Each host knows the addresses of all
// others beforehand, so that the fabric need not learn addresses or flood frames.
type fabric struct {
	ports []io.ReadWriter // a read takes one frame, a write gives one frame
	lines [][]*line       // from, to; nil from a host to itself
	run   sync.WaitGroup
}

func newFabric(ports []io.ReadWriter, seed uint64) *fabric {
	f := &fabric{ports: ports, lines: make([][]*line, len(ports))}
	for from := range ports {
		f.lines[from] = make([]*line, len(ports))
		for to := range ports {
			if from != to {
				f.lines[from][to] = newLine(ports[to], rand.New(rand.NewPCG(seed, uint64(from)<<32|uint64(to))))
			}
		}
	}
	return f
}

// start forwards frames until the ports end.
func (f *fabric) start() {
	for from := range f.ports {
		f.run.Go(func() { f.serve(from) })
	}
}

const maxFrame = 1 << 16

func (f *fabric) serve(from int) {
	frame := make([]byte, maxFrame)
	for {
		n, err := f.ports[from].Read(frame)
		if err != nil {
			return
		}
		f.forward(from, frame[:n])
	}
}

func (f *fabric) forward(from int, frame []byte) {
	if len(frame) < len(mac{}) {
		return
	}
	to := hostOf(mac(frame[:len(mac{})]), len(f.ports))
	if to < 0 || to == from {
		return // no host needs frames to all or to unknown addresses
	}
	f.lines[from][to].forward(frame)
}

func (f *fabric) heal() {
	for _, lines := range f.lines {
		for _, l := range lines {
			if l != nil {
				l.heal()
			}
		}
	}
}
