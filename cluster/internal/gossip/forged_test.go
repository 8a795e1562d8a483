package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/gossip/gossiptest"
	"github.com/belfryhq/belfry/internal/assert"
)

func (m mesh) forger() *gossiptest.Forger {
	m.t.Helper()
	_, conn, err := m.network.Listen("127.0.0.1:0")
	assert.NoError(m.t, err)
	f := gossiptest.Over(conn)
	m.t.Cleanup(func() {
		assert.Equal(m.t, f.Close(), nil)
	})
	return f
}

// inClear starts a node without a gossip key that knows the nodes of its cluster.
func (m mesh) inClear(id string, members []string, join ...string) *node {
	m.t.Helper()
	return m.startWith(id, 1, clusterID, func(c *Config) {
		c.Keys = nil
		c.Directory = registered{seeds(join), members}
	}, join...)
}

// registered is the directory of a node that knows all members.
type registered struct {
	seeds
	members []string
}

func (r registered) IsKnown(id string) (member, sure bool) {
	return slices.Contains(r.members, id), true
}

func forged(id string, boot uint64, addr string) *clusterpb.GossipMeta {
	return &clusterpb.GossipMeta{Id: id, Boot: boot, ClusterId: clusterID, Name: "n" + id, PeerAddr: addr}
}

// Forged members are not taken up, and only a few forged starts of a known node.
func TestForgedMembersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		abc := []string{"a", "b", "c"}
		a := m.inClear("a", abc)
		m.inClear("b", abc, a.addr)
		f := m.forger()
		a.sees(t, "a.1", "b.1")
		for i := range 3000 {
			alive(t, f, a, forged(fmt.Sprint("stranger", i), 1, "127.0.0.1:9"))
			alive(t, f, a, forged("c", uint64(i)+1000, "127.0.0.1:9"))
		}
		foreign := forged("c", 7, "127.0.0.1:9")
		foreign.ClusterId = "another-cluster-"
		alive(t, f, a, foreign)
		a.startsOf(t, "c", 1)
		a.Gossip.mu.Lock()
		defer a.Gossip.mu.Unlock()
		if n := len(a.claims); n > 2+maxStarts {
			t.Errorf("%d starts are known", n)
		}
		for name, m := range a.members {
			if m.Id != "a" && m.Id != "b" && m.Id != "c" {
				t.Errorf("%s is a member", name)
			}
		}
	})
}

// startsOf waits until the members include at least least starts of a node.
func (n *node) startsOf(t *testing.T, id string, least int) {
	t.Helper()
	timeout := time.After(15 * time.Second)
	for {
		_, changed := n.Watch()
		if len(n.Starts(id)) >= least {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%d starts of %s are members", len(n.Starts(id)), id)
		}
	}
}

// alive sends forged news to a node, and waits until the node has taken it.
func alive(t *testing.T, f *gossiptest.Forger, to *node, m *clusterpb.GossipMeta) {
	t.Helper()
	assert.NoError(t, f.Alive(to.addr, gossiptest.MaxIncarnation, m))
	synctest.Wait()
}

// A node that does not know its cluster's map lets strangers in, at most maxStrangers of them.
func TestStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		a := m.startWith("a", 1, "", func(c *Config) { c.Keys = nil })
		f := m.forger()
		for i := range 3000 {
			alive(t, f, a, forged(fmt.Sprint("stranger", i), 1, "127.0.0.1:9"))
		}
		timeout := time.After(15 * time.Second)
		for {
			members, changed := a.Watch()
			if n := len(members) - 1; n >= maxStrangers {
				if n > maxStrangers {
					t.Fatalf("%d strangers are members", n)
				}
				return
			}
			select {
			case <-changed:
			case <-timeout:
				t.Fatalf("%d strangers are members", len(members)-1)
			}
		}
	})
}

// Forged news of a start, of any incarnation, does not change the start's metadata.
func TestForgedAddressIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		ab := []string{"a", "b"}
		a := m.inClear("a", ab)
		b := m.inClear("b", ab, a.addr)
		a.sees(t, "a.1", "b.1")
		f := m.forger()
		lie := forged("b", 1, b.addr)
		lie.HttpAddr = "127.0.0.1:666"
		alive(t, f, a, lie)
		alive(t, f, a, forged("b", 1, "127.0.0.1:9"))
		alive(t, f, a, forged("b", 2, "127.0.0.1:9")) // the node has taken the forged news once this start is a member
		a.startsOf(t, "b", 2)
		for _, s := range a.Starts("b") {
			if s.Boot == 1 && (s.HttpAddr != "" || s.PeerAddr != b.addr) {
				t.Errorf("b's first start is now %v", s)
			}
		}
	})
}

// A member that was declared dead with an incarnation that it cannot beat is back a while later.
func TestForgedDeathHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		ab := []string{"a", "b"}
		a := m.inClear("a", ab)
		b := m.inClear("b", ab, a.addr)
		a.sees(t, "a.1", "b.1")
		b.sees(t, "a.1", "b.1")
		f := m.forger()
		f.Dead(a.addr, gossiptest.MaxIncarnation, gossiptest.Start("b", 1), "a.1")
		a.sees(t, "a.1")
		f.Suspect(b.addr, gossiptest.MaxIncarnation, gossiptest.Start("a", 1), "b.1")
		b.sees(t, "b.1")
		a.seesWithin(t, time.Minute, "a.1", "b.1")
		b.seesWithin(t, time.Minute, "a.1", "b.1")
	})
}

// A node without a key survives harmful lists of members over TCP, and hangs up.
func TestHarmfulStatesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t)
		ab := []string{"a", "b"}
		a := m.inClear("a", ab)
		handle := &codec.MsgpackHandle{}
		type state struct {
			Name string
			Addr []byte
			Port uint16
			Vsn  []byte
		}
		type states struct {
			Nodes, UserStateLen int
			Join                bool
		}
		for name, c := range map[string]struct {
			kind   byte
			header any
			member any
		}{
			"no versions":    {statesType, states{Nodes: 1, Join: true}, state{Name: "b.1", Addr: []byte{127, 0, 0, 1}}},
			"one version":    {statesType, states{Nodes: 1}, state{Name: "b.1", Vsn: []byte{1}}},
			"many members":   {statesType, states{Nodes: 1 << 20}, state{}},
			"fewer than 0":   {statesType, states{Nodes: -1}, state{}},
			"much about all": {statesType, states{UserStateLen: 20 << 20}, state{}},
			"a long message": {8, struct{ UserMsgLen int }{-1}, state{}},
			"compressed":     {compressType, struct{ Buf []byte }{[]byte{0x00}}, state{}},
		} {
			conn, err := m.network.Dial(t.Context(), a.addr)
			assert.NoError(t, err)
			message := bytes.NewBuffer([]byte("\x02\xf4\x08" + label))
			message.WriteByte(c.kind)
			for _, part := range []any{c.header, c.member} {
				assert.NoError(t, codec.NewEncoder(message, handle).Encode(part))
			}
			if _, err := conn.Write(message.Bytes()); err != nil {
				t.Fatal(err)
			}
			assert.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			if said, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: it said %q and did not hang up", name, said)
			}
			_ = conn.Close() // the node has hung up
		}
		m.inClear("b", ab, a.addr)
		a.sees(t, "a.1", "b.1")
	})
}

func TestCompressedPacketsAreDropped(t *testing.T) {
	ping, compressed := []byte{pingType, 1}, []byte{compressType, 1, 2}
	compound := func(parts ...[]byte) []byte {
		packet := []byte{compoundType, byte(len(parts))}
		for _, p := range parts {
			packet = append(packet, 0, byte(len(p)))
		}
		return append(packet, bytes.Join(parts, nil)...)
	}
	labelled := func(p []byte) []byte { return append([]byte("\xf4\x08"+label), p...) }
	checked := func(p []byte) []byte { return append([]byte{checkedType, 1, 2, 3, 4}, p...) }
	for _, c := range []struct {
		packet   []byte
		harmless bool
	}{
		{nil, true}, {ping, true}, {compressed, false}, {labelled(ping), true}, {labelled(compressed), false},
		{compound(ping, ping), true}, {compound(ping, compressed), false}, {labelled(compound(compressed, ping)), false},
		{labelled(checked(compound(ping))), true}, {labelled(checked(compressed)), false},
		{compound(compound(compound(compound(ping)))), false}, {[]byte{compoundType, 9, 0}, true},
		{[]byte{labelType}, true}, {[]byte{labelType, 9, 1}, true}, {[]byte{checkedType}, true},
	} {
		assert.Equal(t, isHarmless(c.packet, maxNested), c.harmless, "%q: harmless", c.packet)
	}
}
