package peer

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
)

// keysIn returns the keys of a node in a folder of certificates.
func keysIn(t *testing.T, folder *certs.Folder, node string, reload <-chan struct{}) *peerkeys.Keys {
	t.Helper()
	keys, err := peerkeys.Open(peerkeys.Config{
		Files: certs.NodeFiles(folder.NodeDir(node)), NodeName: node, Reload: reload,
	})
	assert.NoError(t, err)
	return keys
}

// A certificate that has ended is refused at both ends of a connection, and the node that refuses it says so.
func TestEndedCertificateIsRefused(t *testing.T) {
	cfg := certs.Config{Dir: filepath.Join(t.TempDir(), "certs"), AuthorityValidity: 90 * 365 * 24 * time.Hour}
	var folder *certs.Folder
	synctest.Test(t, func(t *testing.T) { // whose clock begins with the year 2000
		var err error
		folder, err = certs.Init(cfg, []certs.Node{{Name: "n1"}, {Name: "n2"}})
		assert.NoError(t, err)
	})
	assert.NoError(t, folder.Renew([]string{"n2"}))
	var log assert.Log
	b := newBook()
	ended := listen(t, b, 1, func(c *Config) { c.Keys = keysIn(t, folder, "n1", nil) })
	sound := listen(t, b, 2, func(c *Config) {
		c.Keys, c.Logger = keysIn(t, folder, "n2", nil), slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, dial := range []struct {
		from *Endpoint
		to   int
		says string
	}{{sound, 1, "certificate has expired"}, {ended, 2, "expired certificate"}} {
		conn, err := dial.from.DialNode(t.Context(), nodeID(dial.to))
		if err == nil || !strings.Contains(err.Error(), dial.says) {
			t.Errorf("to node %d: %v, %v", dial.to, conn, err)
		}
	}
	for _, want := range []string{`"refused the certificate of a dialled node" to=`,
		`"refused the certificate of a node that dialled" from=`} {
		log.Await(want)
	}
}

// A new authority reaches two nodes in three steps. New connections use the present certificates, and a connection from
// before the first step goes on.
func TestConnectionsDuringARotation(t *testing.T) {
	folder, err := certs.Init(certs.Config{Dir: filepath.Join(t.TempDir(), "certs")},
		[]certs.Node{{Name: "n1"}, {Name: "n2"}})
	assert.NoError(t, err)
	b := newBook()
	var nodes []*Endpoint
	var reloads []chan struct{}
	for i, name := range []string{"n1", "n2"} {
		reload := make(chan struct{})
		keys := keysIn(t, folder, name, reload)
		nodes = append(nodes, listen(t, b, i+1, func(c *Config) { c.Keys = keys }))
		reloads = append(reloads, reload)
		go keys.Run(t.Context(), func([][]byte) error { return nil })
	}
	one, two := nodes[0], nodes[1]
	first, firstCert := connect(t, one, two)
	for _, step := range []certs.Step{certs.Install, certs.Use, certs.Remove} {
		_, err := folder.RotateAuthority(step)
		assert.NoError(t, err)
		for _, reload := range reloads {
			reload <- struct{}{}
			reload <- struct{}{} // received after the first look
			connect(t, one, two)
			_, cert := connect(t, two, one)
			if same := bytes.Equal(cert.AuthorityKeyId, firstCert.AuthorityKeyId); step == certs.Remove && same {
				t.Error("the former authority's certificate is in use at the end")
			}
		}
	}
	if _, cert := connect(t, one, two); cert.Equal(firstCert) {
		t.Error("a new connection has the first certificate")
	}
	exchange(t, first)
}

// pair are the ends of a connection.
type pair struct{ from, to net.Conn }

// connect opens a connection for gRPC, sends a byte both ways, and returns the certificate of the node that was dialled.
func connect(t *testing.T, from, to *Endpoint) (pair, *x509.Certificate) {
	t.Helper()
	conn, err := from.DialAddr(t.Context(), to.Addr())
	assert.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("P")); err != nil {
		t.Fatal(err)
	}
	p := pair{from: conn, to: accept(t, to.GRPC())}
	expect(t, p.to, "P")
	exchange(t, p)
	return p, conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

func exchange(t *testing.T, p pair) {
	t.Helper()
	for _, way := range []pair{p, {p.to, p.from}} {
		_, err := way.from.Write([]byte("x"))
		assert.NoError(t, err)
		expect(t, way.to, "x")
	}
}

// Two nodes of different authorities refuse each other, and say so.
func TestForeignAuthorityIsRefused(t *testing.T) {
	a, other, b := newAuthority(t), newAuthority(t), newBook()
	var log assert.Log
	one := listen(t, b, 1, a.keys(t, "n1"))
	two := listen(t, b, 2, other.keys(t, "n2"), func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, dial := range []struct {
		from *Endpoint
		to   int
	}{{two, 1}, {one, 2}} {
		_, err := dial.from.DialNode(t.Context(), nodeID(dial.to))
		assert.Error(t, err, "reached node %d", dial.to)
	}
	if text := log.String(); !strings.Contains(text, "unknown authority") || !strings.Contains(text, "level=WARN") {
		t.Errorf("the log says %s", log.String())
	}
}
