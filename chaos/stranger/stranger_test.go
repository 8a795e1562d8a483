package stranger

import (
	"bytes"
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/belfryhq/belfry/internal/assert"
)

// asPeer adds to memberlist's own transport the byte that begins a gossip stream on a peer port.
type asPeer struct {
	*memberlist.NetTransport
	streams chan net.Conn
}

func (p *asPeer) StreamCh() <-chan net.Conn { return p.streams }

func (p *asPeer) accept(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case conn := <-p.NetTransport.StreamCh():
			first := make([]byte, 1)
			if _, err := io.ReadFull(conn, first); err != nil || first[0] != streamByte {
				_ = conn.Close()
				continue
			}
			p.streams <- conn
		}
	}
}

// describes gives a member the metadata of a node.
type describes struct{ meta []byte }

func (d describes) NodeMeta(int) []byte             { return d.meta }
func (d describes) NotifyMsg([]byte)                {}
func (d describes) GetBroadcasts(int, int) [][]byte { return nil }
func (d describes) LocalState(bool) []byte          { return []byte("hints") }
func (d describes) MergeRemoteState([]byte, bool)   {}

// mesh returns a mesh of one member, and the member's address.
func mesh(t *testing.T) (*memberlist.Memberlist, string) {
	t.Helper()
	logger := log.New(io.Discard, "", 0)
	nt, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{"127.0.0.1"}, Logger: logger})
	assert.NoError(t, err)
	p := &asPeer{nt, make(chan net.Conn)}
	done := make(chan struct{})
	go p.accept(done)
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.Transport, c.Logger = "abc.7", label[2:], p, logger
	c.BindPort, c.AdvertiseAddr, c.AdvertisePort = nt.GetAutoBindPort(), "127.0.0.1", nt.GetAutoBindPort()
	c.Delegate = describes{meta{id: "abc", boot: 7, cluster: "c", name: "node-1", addr: "127.0.0.1:1"}.encode()}
	list, err := memberlist.Create(c)
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, list.Shutdown(), nil)
		close(done)
	})
	return list, net.JoinHostPort("127.0.0.1", strconv.Itoa(nt.GetAutoBindPort()))
}

// A plain mesh without a key believes the stranger: it accepts fakes and forged starts of its members.
func TestMeshBelievesTheStranger(t *testing.T) {
	list, addr := mesh(t)
	s := &Stranger{Addrs: []string{addr}, Rand: rand.New(rand.NewPCG(1, 1))}
	assert.NoError(t, s.Learn(t.Context()))
	if len(s.members) != 1 || s.members[0].Name != "abc.7" || len(s.fakes) != Fakes {
		t.Fatalf("the stranger learned of %+v, and made up %d", s.members, len(s.fakes))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	lied := make(chan error, 1)
	var packets, streams int
	go func() {
		var err error
		packets, streams, err = s.Lie(ctx)
		lied <- err
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	fakes, restarts := 0, 0
	for fakes < 1000 || restarts == 0 {
		select {
		case <-ctx.Done():
			t.Fatalf("the mesh believes in %d fakes and %d forged starts", fakes, restarts)
		case <-tick.C:
		}
		fakes, restarts = 0, 0
		for _, m := range list.Members() {
			claim, ok := parseMeta(m.Meta)
			switch {
			case ok && strings.HasPrefix(claim.name, "fake-") && claim.cluster == "c":
				fakes++
			case ok && claim.id == "abc" && claim.boot > 7:
				restarts++
			}
		}
	}
	cancel()
	if err := <-lied; err != nil || packets == 0 || streams == 0 {
		t.Errorf("%d packets, %d streams, %v", packets, streams, err)
	}
}

// Learn fails if no node answers.
func TestLearnNeedsAnAnswer(t *testing.T) {
	s := &Stranger{Addrs: []string{"127.0.0.1:1"}, Rand: rand.New(rand.NewPCG(1, 1))}
	assert.Error(t, s.Learn(t.Context()), "learned %v", s.members)
}

// The same seed makes the same lies.
func TestLiesRepeat(t *testing.T) {
	tell := func() []byte {
		s := &Stranger{Rand: rand.New(rand.NewPCG(7, 1)), members: []state{{Name: "a.1"}, {Name: "b.1"}}}
		s.fakes = s.fake(s.members[0])
		var all []byte
		for range 50 {
			for _, lie := range []func() ([]byte, error){s.packed, s.streamed} {
				claims, err := lie()
				assert.NoError(t, err)
				all = append(all, claims...)
			}
		}
		return all
	}
	if !bytes.Equal(tell(), tell()) {
		t.Error("the same seed makes different lies")
	}
}

func TestMetaKeepsWhatItDoesNotKnow(t *testing.T) {
	m := meta{id: "a", boot: 3, cluster: "c", name: "n", addr: "x", rest: []byte{0x32, 1, 'h', 0x38, 3}}
	got, ok := parseMeta(m.encode())
	if !ok || got.id != m.id || got.boot != 3 || got.cluster != "c" || got.name != "n" || got.addr != "x" ||
		!bytes.Equal(got.rest, m.rest) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "\xff", "\x0a\x05a"} {
		if got, ok := parseMeta([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
