package stranger

import (
	"bufio"
	"bytes"
	"compress/lzw"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
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
			if send(ctx, addr, lie) == nil {
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

const sendTimeout = 300 * time.Millisecond

// send sends bytes on a new stream.
func send(ctx context.Context, addr string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	_, err = conn.Write(data)
	return errors.Join(err, conn.Close())
}

const (
	askTimeout  = 3 * time.Second
	mostMembers = 1 << 20
)

// ask asks a node for the members that it knows, as a joining node does.
func ask(ctx context.Context, addr string) ([]state, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	question, err := encode(pushPullMsg, &header{Join: false})
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	members, err := readStates(conn)
	if err != nil {
		return nil, fmt.Errorf("asking %s for the members: %w", addr, err)
	}
	return members, nil
}

// dial opens a gossip stream, which ends at the deadline of ctx.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline() // without one the zero time, which sets none
	err = conn.SetDeadline(deadline)
	if err == nil {
		_, err = conn.Write(append([]byte{streamByte}, label...))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// readStates reads the answer to a push-pull. The answer is usually compressed.
func readStates(from io.Reader) ([]state, error) {
	in := bufio.NewReader(from)
	k, err := in.ReadByte()
	if err != nil {
		return nil, err
	}
	dec := codec.NewDecoder(in, &codec.MsgpackHandle{})
	if kind(k) == compressMsg {
		var c compressed
		if err := dec.Decode(&c); err != nil {
			return nil, err
		}
		plain := bufio.NewReader(lzw.NewReader(bytes.NewReader(c.Buf), lzw.LSB, 8))
		if k, err = plain.ReadByte(); err != nil {
			return nil, err
		}
		dec = codec.NewDecoder(plain, &codec.MsgpackHandle{})
	}
	if kind(k) != pushPullMsg {
		return nil, fmt.Errorf("a message of type %d, not the members", k)
	}
	var h header
	if err := dec.Decode(&h); err != nil {
		return nil, err
	}
	if h.Nodes < 0 || h.Nodes > mostMembers {
		return nil, fmt.Errorf("%d members; %d at most are believed", h.Nodes, mostMembers)
	}
	members := make([]state, h.Nodes)
	for i := range members {
		if err := dec.Decode(&members[i]); err != nil {
			return nil, err
		}
	}
	return members, nil
}
