package stranger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Stranger lies to the nodes at Addrs, which are their peer addresses. Every choice comes from Rand.
type Stranger struct {
	Addrs []string
	Rand  *rand.Rand

	members []state
	fakes   []state
}

// Fakes is the number of nonexistent members in a stranger's lies.
const Fakes = 3000

// Learn asks the nodes for the members until one answers. Lie needs a successful Learn before.
func (s *Stranger) Learn(ctx context.Context) error {
	var failed []error
	for _, addr := range s.Addrs {
		members, err := ask(ctx, addr)
		if err == nil && len(members) > 0 {
			s.members, s.fakes = members, s.fake(members[0])
			return nil
		}
		failed = append(failed, err)
	}
	return fmt.Errorf("no node tells the members: %w", errors.Join(failed...))
}

// lieEvery is the time between two lies. Each goes to one node, mostly as a packet and sometimes as a stream.
const lieEvery = 5 * time.Millisecond

// Lie sends lies until ctx ends, and returns the numbers of packets and streams sent. A node that accepts none is no
// error, because the node may be down.
func (s *Stranger) Lie(ctx context.Context) (packets, streams int, err error) {
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(ctx, "udp", "")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	tick := time.NewTicker(lieEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return packets, streams, nil
		case <-tick.C:
		}
		addr := s.Addrs[n%len(s.Addrs)]
		if s.Rand.IntN(20) == 0 {
			lie, err := s.streamed()
			if err != nil {
				return packets, streams, err
			}
			if say(ctx, addr, lie) == nil {
				streams++
			}
			continue
		}
		lie, err := s.packed()
		if err != nil {
			return packets, streams, err
		}
		to, err := net.ResolveUDPAddr("udp", addr)
		if err != nil {
			return packets, streams, err
		}
		if _, err := conn.WriteTo(lie, to); err == nil {
			packets++
		}
	}
}

const sayTimeout = 300 * time.Millisecond

// say sends bytes on a new stream.
func say(ctx context.Context, addr string, what []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sayTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	_, err = conn.Write(what)
	return errors.Join(err, conn.Close())
}
