package gossip

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// wire is a transport on which only the test sends. It keeps the first messages of the mesh.
type wire struct {
	packets chan *memberlist.Packet
	streams chan net.Conn
	said    chan []byte
}

func newWire() *wire {
	return &wire{make(chan *memberlist.Packet), make(chan net.Conn), make(chan []byte, 100)}
}

func (w *wire) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.IPv4(127, 0, 0, 1), 7, nil
}

func (w *wire) WriteTo(b []byte, _ string) (time.Time, error) {
	select {
	case w.said <- bytes.Clone(b):
	default:
	}
	return time.Now(), nil
}

func (w *wire) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return w.WriteTo(b, a.Addr)
}

func (w *wire) PacketCh() <-chan *memberlist.Packet { return w.packets }
func (w *wire) StreamCh() <-chan net.Conn           { return w.streams }
func (w *wire) Shutdown() error                     { return nil }

func (w *wire) DialTimeout(string, time.Duration) (net.Conn, error) {
	return nil, errors.New("nobody is there")
}

func (w *wire) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	return w.DialTimeout(a.Addr, d)
}

func onWire(t testing.TB, key []byte) (*Gossip, *wire) {
	w := newWire()
	g, err := Start(Config{
		Self: &clusterpb.GossipMeta{Id: "self", Name: "self", PeerAddr: "127.0.0.1:7", Boot: 1}, Transport: w, Keys: keysOf(key),
		Directory: seeds(nil), Leaders: deaf{},
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, g.Close(), nil)
	})
	return g, w
}

const userType = 8 // memberlist's type of messages for its user

// FuzzStrangers checks that a node survives any packet and any connection of a stranger. With a key, its members stay
// the same.
func FuzzStrangers(f *testing.F) {
	open, openWire := onWire(f, nil)
	locked, lockedWire := onWire(f, make([]byte, 32))
	hint := &clusterpb.LeaderHint{Shard: 1, Term: 2, Leader: "self"}
	hints, err := proto.Marshal(&clusterpb.LeaderHints{ClusterId: "c", Hints: []*clusterpb.LeaderHint{hint}})
	assert.NoError(f, err)
	for _, seed := range [][]byte{
		append([]byte{userType}, hints...), {userType, 0xff}, {7}, {7, 1, 0, 9, 0}, {244}, {244, 9}, {6, 0x80}, {2, 0x80},
		nil, {0}, {244, 8}, []byte("\xf4\x08belfry-1"), append([]byte("\xf4\x08belfry-1"), 0, 0x82), {12, 1, 2, 3, 4, 3},
		append([]byte("\xf4\x08belfry-1"), 7, 2, 0, 1, 0, 1, 3, 4), append([]byte("\xf4\x08belfry-1"), 9, 0x83),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		for _, w := range []*wire{openWire, lockedWire} {
			for _, b := range [][]byte{said, append([]byte("\xf4\x08belfry-1"), said...), nil} {
				w.packets <- &memberlist.Packet{Buf: bytes.Clone(b), From: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}}
				here, there := net.Pipe()
				w.streams <- there
				_ = here.SetDeadline(time.Now().Add(time.Second))
				_, _ = here.Write(b)
				_ = here.Close()
			}
		}
		members := locked.Members()
		assert.MustEqual(t, len(members), 1, "members %v", members)
		if len(open.Members()) == 0 {
			t.Fatal("the node itself is gone")
		}
	})
}
