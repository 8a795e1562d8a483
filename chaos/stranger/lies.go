package stranger

import (
	"fmt"
	"math"
)

const (
	mostNoise     = 1200 // bytes
	fakesAtOnce   = 6    // in one packet
	fakesInStream = 500
	nowherePort   = 9
)

// packed returns a random packet: noise, an accusation, a moved member, or, most often, several fakes.
func (s *Stranger) packed() ([]byte, error) {
	switch s.Rand.IntN(8) {
	case 0:
		return s.noise(), nil
	case 1:
		return append([]byte(label), s.noise()...), nil
	case 2:
		return s.packetOf(suspectMsg, s.accusation())
	case 3:
		return s.packetOf(deadMsg, s.accusation())
	case 4, 5:
		return s.packetOf(aliveMsg, s.moved())
	}
	messages := make([][]byte, fakesAtOnce)
	for i := range messages {
		fake := s.fakes[s.Rand.IntN(len(s.fakes))]
		body := alive{fake.Incarnation, fake.Name, fake.Addr, fake.Port, fake.Meta, fake.Vsn}
		var err error
		if messages[i], err = encode(aliveMsg, &body); err != nil {
			return nil, err
		}
	}
	return packet(messages...), nil
}

func (s *Stranger) packetOf(k kind, body any) ([]byte, error) {
	message, err := encode(k, body)
	return packet(message), err
}

// streamed returns the content of a stream: noise, or a whole state.
func (s *Stranger) streamed() ([]byte, error) {
	if s.Rand.IntN(4) == 0 {
		return s.noise(), nil
	}
	bodies := []any{&header{Nodes: len(s.members) + fakesInStream, Join: s.Rand.IntN(2) == 0}}
	for _, m := range s.members {
		m.State, m.Incarnation = isDead, s.incarnation()
		bodies = append(bodies, &m)
	}
	first := s.Rand.IntN(len(s.fakes) - fakesInStream)
	for i := range fakesInStream {
		bodies = append(bodies, &s.fakes[first+i])
	}
	return encode(pushPullMsg, bodies...)
}

func (s *Stranger) noise() []byte {
	noise := make([]byte, 1+s.Rand.IntN(mostNoise))
	for i := range noise {
		noise[i] = byte(s.Rand.Uint32())
	}
	return noise
}

// incarnation returns an incarnation that the member can exceed, or one that it cannot.
func (s *Stranger) incarnation() uint32 {
	if s.Rand.IntN(2) == 0 {
		return math.MaxUint32
	}
	return 1<<20 + s.Rand.Uint32N(1<<20)
}

func (s *Stranger) member() state { return s.members[s.Rand.IntN(len(s.members))] }

func (s *Stranger) accusation() *accusation {
	return &accusation{Incarnation: s.incarnation(), Node: s.member().Name, From: s.member().Name}
}

// moved returns a claim that a member lives at an address without a process. Half the time it claims a later start of
// the member, too.
func (s *Stranger) moved() *alive {
	m := s.member()
	claim := meta{id: m.Name, addr: nowhere(int(s.Rand.Uint32N(1 << 16)))}
	if known, ok := parseMeta(m.Meta); ok {
		known.addr = claim.addr
		claim = known
	}
	if s.Rand.IntN(2) == 0 {
		claim.boot += 1 + s.Rand.Uint64N(1000)
		m.Name = fmt.Sprintf("%s.%d", claim.id, claim.boot)
	}
	return &alive{
		Incarnation: s.incarnation(), Node: m.Name, Addr: []byte{127, 66, 6, 6}, Port: nowherePort, Meta: claim.encode(),
		Vsn: versions,
	}
}

// fake returns members that do not exist, in the cluster of an existing member.
func (s *Stranger) fake(like state) []state {
	known, _ := parseMeta(like.Meta) // without a description the fakes are in no cluster
	fakes := make([]state, Fakes)
	for i := range fakes {
		m := meta{
			id: fmt.Sprintf("%016x%016x", s.Rand.Uint64(), s.Rand.Uint64()), boot: 1, cluster: known.cluster,
			name: fmt.Sprintf("fake-%d", i), addr: nowhere(i),
		}
		fakes[i] = state{
			Name: m.id + ".1", Addr: []byte{127, 66, byte(i >> 8), byte(i)}, Port: nowherePort, Meta: m.encode(),
			Incarnation: 1 + s.Rand.Uint32N(1000), State: isAlive, Vsn: versions,
		}
	}
	return fakes
}

func nowhere(i int) string { return fmt.Sprintf("127.66.%d.%d:%d", byte(i>>8), byte(i), nowherePort) }
