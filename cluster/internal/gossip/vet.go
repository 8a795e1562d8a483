package gossip

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// Types of memberlist's messages that this package handles.
const (
	pingType     = 0
	ackType      = 2
	statesType   = 6
	compoundType = 7
	compressType = 9
	checkedType  = 12
	errorType    = 13
	labelType    = 244
)

// Bounds on unencrypted input. memberlist's own bounds are megabytes for each connection.
const (
	maxStream    = 4 << 20 // bytes of one exchange of states
	maxUserState = 1 << 20 // bytes of hints about leaders in it
	maxNested    = 4       // layers of a packet: a label, a checksum, a compound, and one message
	versions     = 6       // version numbers of one member
)

// vetted is a transport that keeps from memberlist any message that would end the process or fill its memory. Without a
// gossip key any sender can send such messages: memberlist v0.6.0 takes six versions of each member for granted when it
// reads a list, allocates as much as a length says, and decompresses without a bound. So vetted drops compressed
// messages, and the nodes send none.
type vetted struct {
	memberlist.NodeAwareTransport
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

func vet(t memberlist.NodeAwareTransport) *vetted {
	v := &vetted{
		NodeAwareTransport: t, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		done: make(chan struct{}),
	}
	v.wg.Go(v.run)
	return v
}

// run passes on packets and streams until Shutdown.
func (v *vetted) run() {
	for {
		select {
		case p := <-v.NodeAwareTransport.PacketCh():
			if !isHarmless(p.Buf, maxNested) {
				continue
			}
			select {
			case v.packets <- p:
			case <-v.done:
			}
		case conn := <-v.NodeAwareTransport.StreamCh():
			select {
			case v.streams <- &vettedConn{Conn: conn}:
			case <-v.done:
				_ = conn.Close() // no reader is left
			}
		case <-v.done:
			return
		}
	}
}

// PacketCh returns the channel of vetted packets.
func (v *vetted) PacketCh() <-chan *memberlist.Packet { return v.packets }

// StreamCh returns the channel of vetted streams.
func (v *vetted) StreamCh() <-chan net.Conn { return v.streams }

// DialTimeout opens a stream to an address.
func (v *vetted) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return vetDialled(v.NodeAwareTransport.DialTimeout(addr, timeout))
}

// DialAddressTimeout opens a stream to an address.
func (v *vetted) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return vetDialled(v.NodeAwareTransport.DialAddressTimeout(addr, timeout))
}

func vetDialled(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &vettedConn{Conn: conn}, nil
}

// Shutdown ends the transport.
func (v *vetted) Shutdown() error {
	v.once.Do(func() { close(v.done) })
	err := v.NodeAwareTransport.Shutdown()
	v.wg.Wait()
	return err
}

// isHarmless reports whether a packet has no compressed part, within a bounded number of nested layers.
func isHarmless(packet []byte, layers int) bool {
	switch {
	case len(packet) == 0:
		return true
	case layers == 0:
		return false
	}
	body := packet[1:]
	switch packet[0] {
	case compressType:
		return false
	case labelType:
		return len(body) == 0 || len(body) <= int(body[0]) || isHarmless(body[1+int(body[0]):], layers-1)
	case checkedType:
		return len(body) < 4 || isHarmless(body[4:], layers-1)
	case compoundType:
		return partsAreHarmless(body, layers-1)
	}
	return true
}

// partsAreHarmless checks the parts of a compound packet: their count, their lengths, and the parts themselves.
func partsAreHarmless(body []byte, layers int) bool {
	if len(body) == 0 || len(body) < 1+2*int(body[0]) {
		return true // memberlist refuses it
	}
	lengths, rest := body[1:1+2*int(body[0])], body[1+2*int(body[0]):]
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n > len(rest) {
			return true // memberlist refuses the rest
		}
		if !isHarmless(rest[:n], layers) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// vettedConn reads the whole first message of the other end before it gives memberlist any of it.
type vettedConn struct {
	net.Conn
	once sync.Once
	rest io.Reader
	err  error
}

// Read returns an error if the first message would do harm.
func (c *vettedConn) Read(b []byte) (int, error) {
	c.once.Do(func() { c.rest, c.err = vetMessage(c.Conn) })
	if c.err != nil {
		return 0, c.err
	}
	return c.rest.Read(b)
}

var errHarmful = errors.New("gossip: the message is not one that a node sends")

// vetMessage reads a message and returns a reader that repeats it, followed by the rest of the connection.
func vetMessage(conn io.Reader) (io.Reader, error) {
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(io.LimitReader(conn, maxStream), &seen))
	kind, err := in.ReadByte()
	if err == nil && kind == labelType {
		kind, err = skipLabel(in)
	}
	if err != nil {
		return nil, err
	}
	switch kind {
	case statesType:
		if err := vetStates(in); err != nil {
			return nil, err
		}
	case pingType, ackType, errorType:
	default:
		return nil, fmt.Errorf("%w: type %d", errHarmful, kind)
	}
	return io.MultiReader(&seen, io.LimitReader(conn, maxStream)), nil
}

// skipLabel skips a label and returns the byte that follows it.
func skipLabel(in *bufio.Reader) (byte, error) {
	size, err := in.ReadByte()
	if err != nil {
		return 0, err
	}
	if _, err := in.Discard(int(size)); err != nil {
		return 0, err
	}
	return in.ReadByte()
}

// vetStates checks a list of members, and the size of the hints about leaders that come with it.
func vetStates(in io.Reader) error {
	var header struct{ Nodes, UserStateLen int }
	states := codec.NewDecoder(in, &codec.MsgpackHandle{})
	if err := states.Decode(&header); err != nil {
		return fmt.Errorf("%w: %w", errHarmful, err)
	}
	if header.Nodes < 0 || header.Nodes > maxMembers || header.UserStateLen < 0 || header.UserStateLen > maxUserState {
		return fmt.Errorf("%w: %d members and %d bytes; at most %d and %d",
			errHarmful, header.Nodes, header.UserStateLen, maxMembers, maxUserState)
	}
	for range header.Nodes {
		var member struct{ Vsn []byte }
		if err := states.Decode(&member); err != nil {
			return fmt.Errorf("%w: %w", errHarmful, err)
		}
		if len(member.Vsn) != versions {
			return fmt.Errorf("%w: a member of %d versions", errHarmful, len(member.Vsn))
		}
	}
	return nil
}
