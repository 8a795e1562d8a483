package peer

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster/internal/peertest"
)

// authority issues keys in this package's format.
type authority struct{ *peertest.Authority }

func newAuthority(t testing.TB) authority { return authority{peertest.NewAuthority(t)} }

func (a authority) keys(file string, dns ...string) *Keys {
	cert, key := a.Sign(file, dns...)
	return &Keys{CertFile: cert, KeyFile: key, CAFile: a.CAFile, Gossip: make([]byte, 32)}
}

func named(name string, keys *Keys) func(*Config) {
	return func(c *Config) { c.NodeName, c.Keys = name, keys }
}

func TestNodesWithKeysSpeak(t *testing.T) {
	a, b := newAuthority(t), newBook()
	one := listen(t, b, 1, named("n1", a.keys("n1", "n1"+NameSuffix)))
	two := listen(t, b, 2, named("n2", a.keys("n2", "n2"+NameSuffix, "something.else")), func(c *Config) {
		c.Member = func(name string) bool { return name == "n1" }
	})
	b.nodes[nodeID(2)] = Target{Addr: two.Addr(), Name: "n2"}
	from, to := transport(t, one, 1, cluster), transport(t, two, 1, cluster)
	go answer(to, 5, t.Context().Done())
	if term, err := vote(from, 2); err != nil || term != 5 {
		t.Fatalf("term %d, %v", term, err)
	}
	conn, err := one.DialAddr(t.Context(), two.Addr())
	if err != nil {
		t.Fatal(err)
	}
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
	two := listen(t, b, 2, named("n2", a.keys("n2", "n2"+NameSuffix)), func(c *Config) {
		c.Member = func(name string) bool { return name != "n9" }
	})
	to := transport(t, two, 1, cluster)
	go answer(to, 5, t.Context().Done())
	for _, c := range []struct {
		why  string
		from *Endpoint
		name string
	}{
		{"in the clear", listen(t, b, 3), "n2"},
		{"another authority", listen(t, b, 4, named("n4", other.keys("n4", "n4"+NameSuffix))), "n2"},
		{"not in the cluster", listen(t, b, 9, named("n9", a.keys("n9", "n9"+NameSuffix))), "n2"},
		{"expects another", listen(t, b, 5, named("n5", a.keys("n5", "n5"+NameSuffix))), "n7"},
	} {
		b.nodes[nodeID(2)] = Target{Addr: two.Addr(), Name: c.name}
		if _, err := vote(transport(t, c.from, 1, cluster), 2); err == nil {
			t.Errorf("%s: got a vote", c.why)
		}
	}
}

func TestCertificateMustNameThisNode(t *testing.T) {
	a := newAuthority(t)
	short := a.keys("n1", "n1"+NameSuffix)
	short.Gossip = []byte("short")
	for want, keys := range map[string]*Keys{
		"does not name this node": a.keys("n2", "n2"+NameSuffix),
		"gossip key":              short,
		"node certificate":        {CertFile: "absent", Gossip: make([]byte, 32)},
	} {
		_, err := Listen(Config{NodeID: nodeID(1), NodeName: "n1", BindAddr: "127.0.0.1:0", Keys: keys})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for _, names := range [][]string{
		{"a" + NameSuffix, "b" + NameSuffix}, {"*" + NameSuffix}, {NameSuffix}, {"x.y" + NameSuffix}, nil,
	} {
		if name, err := nodeName(&x509.Certificate{DNSNames: names}); err == nil {
			t.Errorf("%v names %q", names, name)
		}
	}
}
