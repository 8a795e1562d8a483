package peer

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/internal/peertest"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
)

// authority issues keys in this package's format.
type authority struct{ *peertest.Authority }

func newAuthority(t testing.TB) authority { return authority{peertest.NewAuthority(t)} }

// keys returns the keys of a node whose certificate has its name, and further DNS names.
func (a authority) keys(t testing.TB, node string, dns ...string) func(*Config) {
	cert, key := a.Sign(node, append(dns, node+peerkeys.NameSuffix)...)
	keys, err := peerkeys.Open(peerkeys.Config{
		Files: peerkeys.Files{Cert: cert, Key: key, CA: a.CAFile, Gossip: a.GossipFile}, NodeName: node,
	})
	assert.NoError(t, err)
	return func(c *Config) { c.Keys = keys }
}

func TestNodesWithKeysSpeak(t *testing.T) {
	a, b := newAuthority(t), newBook()
	one := listen(t, b, 1, a.keys(t, "n1"))
	two := listen(t, b, 2, a.keys(t, "n2", "something.else"), func(c *Config) {
		c.Directory = only{b, func(name string) bool { return name == "n1" }}
	})
	b.nodes[nodeID(2)] = Target{Addr: two.Addr(), Name: "n2"}
	from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
	go answer(to, 5, t.Context().Done())
	if term, err := vote(from, 2); err != nil || term != 5 {
		t.Fatalf("term %d, %v", term, err)
	}
	conn, err := one.DialAddr(t.Context(), two.Addr())
	assert.NoError(t, err)
	defer conn.Close()
	if _, err := conn.Write([]byte("PRI")); err != nil {
		t.Fatal(err)
	}
	accepted := accept(t, two.GRPC())
	expect(t, accepted, "PRI")
	if addr, ok := accepted.RemoteAddr().(Addr); !ok || addr.Name != "n1" {
		t.Fatalf("accepted from %v", accepted.RemoteAddr())
	}
}

func TestStrangersAreShutOut(t *testing.T) {
	a, other, b := newAuthority(t), newAuthority(t), newBook()
	two := listen(t, b, 2, a.keys(t, "n2"), func(c *Config) {
		c.Directory = only{b, func(name string) bool { return name != "n9" }}
	})
	to := transport(t, two, 1, cluster)
	go answer(to, 5, t.Context().Done())
	for _, c := range []struct {
		why  string
		from *Endpoint
		name string
	}{
		{"in the clear", listen(t, b, 3), "n2"},
		{"another authority", listen(t, b, 4, other.keys(t, "n4")), "n2"},
		{"not in the cluster", listen(t, b, 9, a.keys(t, "n9")), "n2"},
		{"expects another", listen(t, b, 5, a.keys(t, "n5")), "n7"},
	} {
		b.nodes[nodeID(2)] = Target{Addr: two.Addr(), Name: c.name}
		_, err := vote(transport(t, c.from, 1, cluster), 2)
		assert.Error(t, err, "%s: got a vote", c.why)
	}
}
