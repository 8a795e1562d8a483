package wheel

import (
	"math/rand/v2"
	"testing"
)

// FuzzAgainstModel reads the input as a script of three bytes a step: the operation, the distance in time (a mantissa
// of three bits and an exponent of five), and an argument: the choice of a node, a count or a limit.
func FuzzAgainstModel(f *testing.F) {
	f.Add(int64(0), false, []byte{0, 0x41, 9, 0, 0x52, 3, 4, 0x52, 9, 5, 0, 0})
	f.Add(int64(-70), true, []byte{3, 0x63, 40, 0, 0x41, 1, 4, 0x60, 2, 1, 0x70, 3, 5, 0, 0, 6, 0, 0, 4, 0xff, 7})
	f.Add(int64(1)<<48-5, true, []byte{3, 0x88, 90, 3, 0x48, 90, 2, 0, 3, 5, 0, 0, 7, 0x31, 1, 4, 0xa8, 200})
	source := rand.NewChaCha8([32]byte{})
	for range 16 { // long scripts, whose crowded slots are spread ahead
		script := make([]byte, 900)
		_, _ = source.Read(script) // never fails
		f.Add(int64(0), true, script)
	}
	f.Fuzz(func(t *testing.T, position int64, tiny bool, script []byte) {
		if position > 1<<60 || position < -1<<60 {
			t.Skip("no room for distances")
		}
		p := newPair(t, position, tiny)
		for ; len(script) >= 3 && len(p.model.items) < 2000; script = script[3:] {
			p.play(script[0], int64(script[1]&7)<<(script[1]>>3), int(script[2]))
		}
		p.check()
		p.next()
		p.drain(p.model.position+1<<50, 5)
		p.check()
	})
}

func (p *pair) play(verb byte, distance int64, argument int) {
	p.t.Helper()
	var h Handle
	if n := len(p.model.items); n > 0 {
		h = p.model.items[argument%n].handle
	}
	switch verb % 9 {
	case 0:
		p.insert(p.model.position + distance)
	case 1:
		if h != 0 {
			p.reschedule(h, p.model.position+distance)
		}
	case 2:
		if h != 0 {
			p.remove(h)
		}
	case 3:
		for i := range argument {
			p.insert(p.model.position + distance + int64(i%7))
		}
	case 4:
		p.advance(p.model.position+distance, argument)
	case 5:
		p.next()
	case 6:
		p.rebuild()
	case 7:
		p.insert(p.model.position - distance)
	case 8:
		if h != 0 {
			p.reschedule(h, p.nodes.Read(h).Due()+distance)
		}
	}
}
