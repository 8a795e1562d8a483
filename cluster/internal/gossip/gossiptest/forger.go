// Package gossiptest forges gossip: the packets that any sender can send to a node without a gossip key.
package gossiptest

import (
	"crypto/rand"
	"fmt"
	"net"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Types of memberlist's messages.
const (
	suspectType = 3
	aliveType   = 4
	deadType    = 5
	userType    = 8
)

// MaxIncarnation beats every refutation: the count wraps around.
const MaxIncarnation = 1<<32 - 1

// header begins every packet of the mesh.
var header = []byte("\xf4\x08belfry-1")

// Forger sends forged packets.
type Forger struct{ conn net.PacketConn }

// Over returns a Forger that sends over a packet socket, and closes it in the end.
func Over(conn net.PacketConn) *Forger { return &Forger{conn} }

// Close closes the socket.
func (f *Forger) Close() error { return f.conn.Close() }

// send sends a packet to the node at an address. It ignores errors, since any packet may be lost.
func (f *Forger) send(to string, packet []byte) {
	if addr, err := net.ResolveUDPAddr("udp", to); err == nil {
		_, _ = f.conn.WriteTo(packet, addr)
	}
}

// Junk sends random bytes twice: bare, and behind the mesh's header.
func (f *Forger) Junk(to string) {
	var junk [64]byte
	_, _ = rand.Read(junk[:]) // never fails
	f.send(to, junk[:])
	f.send(to, append(append([]byte(nil), header...), junk[:]...))
}

// Alive sends the news that a start of a node is alive, with m as its metadata.
func (f *Forger) Alive(to string, incarnation uint32, m *clusterpb.GossipMeta) error {
	meta, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	at, err := net.ResolveUDPAddr("udp", m.PeerAddr)
	if err != nil {
		return err
	}
	f.send(to, message(aliveType, 6).number("Incarnation", incarnation).bytes("Node", []byte(Start(m.Id, m.Boot))).
		bytes("Addr", at.IP.To4()).number("Port", uint32(at.Port)).bytes("Meta", meta).
		bytes("Vsn", []byte{1, 5, 2, 0, 0, 0}))
	return nil
}

// Suspect sends the news that node from suspects a start of a node.
func (f *Forger) Suspect(to string, incarnation uint32, start, from string) {
	f.accuse(suspectType, to, incarnation, start, from)
}

// Dead sends the news that a start of a node is dead.
func (f *Forger) Dead(to string, incarnation uint32, start, from string) {
	f.accuse(deadType, to, incarnation, start, from)
}

func (f *Forger) accuse(kind byte, to string, incarnation uint32, start, from string) {
	f.send(to, message(kind, 3).number("Incarnation", incarnation).bytes("Node", []byte(start)).
		bytes("From", []byte(from)))
}

// Hints sends hints about leaders.
func (f *Forger) Hints(to string, hints *clusterpb.LeaderHints) error {
	data, err := proto.Marshal(hints)
	if err != nil {
		return err
	}
	f.send(to, append(append(append([]byte(nil), header...), userType), data...))
	return nil
}

// Start returns the name of one start of a node in the mesh.
func Start(id string, boot uint64) string { return fmt.Sprintf("%s.%d", id, boot) }

// packet is a message under construction: a MessagePack map with fewer than 16 entries.
type packet []byte

func message(kind byte, entries int) packet {
	return append(append(packet(nil), header...), kind, 0x80|byte(entries))
}

func (p packet) key(key string) packet { return append(append(p, 0xa0|byte(len(key))), key...) }

func (p packet) number(key string, n uint32) packet {
	return append(p.key(key), 0xce, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// bytes appends bytes in the form that MessagePack had before it distinguished strings from bytes.
func (p packet) bytes(key string, b []byte) packet {
	return append(append(p.key(key), 0xda, byte(len(b)>>8), byte(len(b))), b...)
}
