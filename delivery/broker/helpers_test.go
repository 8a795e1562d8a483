package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// newPublisher returns a Publisher that is closed at the end of the test.
func newPublisher(t testing.TB, change ...func(*Config)) *Publisher {
	t.Helper()
	var cfg Config
	for _, f := range change {
		f(&cfg)
	}
	p, err := New(cfg)
	assert.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// permit returns a setting that permits the brokers of these URLs, without credentials.
func permit(t testing.TB, urls ...string) func(*Config) {
	t.Helper()
	var text strings.Builder
	for _, url := range urls {
		target, _, err := targeturl.ParseBroker(url)
		assert.NoError(t, err)
		fmt.Fprintf(&text, "%s: {}\n", target.Destination())
	}
	return withFile(t, text.String())
}

// withFile returns a setting that permits the brokers of a file with this text.
func withFile(t testing.TB, text string) func(*Config) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "brokers.yaml")
	writeFile(t, path, text)
	known, err := LoadKnown(path)
	assert.NoError(t, err)
	return func(c *Config) { c.Known = known }
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// attemptOf returns the first attempt of a task with this target.
func attemptOf(url string, change ...func(*fsmpb.Task)) task.Attempt {
	made := &fsmpb.Task{
		Id: "order-1042", WebhookId: "w-order-1042", Attempts: 1, Fence: 77, FireAtMs: 1_700_000_000_123,
		Spec: &fsmpb.Spec{
			Queue: "orders", Payload: []byte(`{"order": 1042}`), Target: &fsmpb.Target{Url: url},
		},
	}
	for _, f := range change {
		f(made)
	}
	return task.Attempt{Task: made, Timeout: 10 * time.Second}
}

// listen calls serve for each connection to a port of its own, and returns the port's address.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	return accept(t, l, serve)
}

// listenIn is listen on a network in memory.
func listenIn(t testing.TB, network *memnet.Network, serve func(net.Conn)) string {
	t.Helper()
	l, _, err := network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	return accept(t, l, serve)
}

// in returns a setting for brokers on a network.
func in(network *memnet.Network) func(*Config) { return func(c *Config) { c.Network = network } }

func accept(t testing.TB, l net.Listener, serve func(net.Conn)) string {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// freePorts returns n ports that were free a moment ago.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		assert.NoError(t, err)
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// certificates writes an authority and a certificate for 127.0.0.1 into a folder: ca.pem, cert.pem, key.pem.
func certificates(t testing.TB, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err)
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
	assert.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	assert.NoError(t, err)
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	writeFile(t, filepath.Join(folder, "ca.pem"), cert)
	writeFile(t, filepath.Join(folder, "cert.pem"), cert)
	writeFile(t, filepath.Join(folder, "key.pem"),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
}
