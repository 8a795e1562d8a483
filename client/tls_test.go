package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestLeadersByScheme checks which announced addresses get calls. Given https:// addresses, a client uses no http://
// address. The question whether an address is that node's goes without the key.
func TestLeadersByScheme(t *testing.T) {
	for _, test := range []struct{ given, announced, want string }{
		{"https://a:1", "https://b:1", "https://b:1/readyz , https://b:1/v1/namespaces/orders/batch Bearer k"},
		{"https://a:1", "http://b:1", ""},
		{"https://a:1", "", ""},
		{"https://a:1/belfry", "https://b:1", ""},
		{"http://a:1", "https://b:1", "https://b:1/readyz , https://b:1/v1/namespaces/orders/batch Bearer k"},
		{"http://a:1", "http://b:1", "http://b:1/readyz , http://b:1/v1/namespaces/orders/batch Bearer k"},
		{"http://a:1", "", ""},
		{"http://a:1", "http://ann:hush@b:1", ""},
		{"http://a:1", "http://b:1/path", ""},
		{"http://a:1", "ftp://b:1", ""},
		{"http://a:1", "http://0.0.0.0:1", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "a:1", "b:1")
			w.view.Nodes[1].URL = test.announced
			for i := range w.view.Shards { // the second node leads all
				w.view.Shards[i].Leader = "n2"
			}
			c := w.client(Config{Addrs: []string{test.given}, Key: NewSecret("k"), Namespace: "orders"})
			w.touchAll(c)
			learned()
			w.touchAll(c)
			assert.Equal(t, w.carriedTo("b:1"), test.want, "%s, and a node announces %q: asked", test.given, test.announced)
		})
	}
}

// TestKeyOfOneNamespace checks that a client whose key has a namespace of its own finds the leaders by that namespace,
// and by Config.Namespace if that is set.
func TestKeyOfOneNamespace(t *testing.T) {
	for _, cfg := range []Config{{}, {Namespace: "orders"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "a:1", "b:1", "c:1")
			w.view.Namespace = "orders"
			if cfg.Namespace != "" {
				w.view.Namespace = "default" // of a key for all namespaces
			}
			cfg.Addrs, cfg.Key = []string{"b:1"}, NewSecret("k")
			c := w.client(cfg)
			w.touchAll(c)
			learned()
			w.view.Namespace = "orders"
			for i, host := range []string{"a:1", "b:1", "c:1"} {
				for n := range 20 {
					id := w.idIn(i+1, n)
					if _, err := c.Get(t.Context(), id); err != nil || w.countRequests("GET "+host+c.conn.root+"/tasks/"+id) != 1 {
						t.Errorf("namespace %q: the read of %s did not go to %s: %v", cfg.Namespace, id, host, err)
					}
				}
			}
		})
	}
}

// TestMapIsNotAskedForInVain checks that a caller without a grant is not refused again and again, and that its calls go
// to the given addresses.
func TestMapIsNotAskedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1")
		w.refuse = func(r *http.Request) *http.Response {
			if r.URL.Path != "/v1/map" {
				return nil
			}
			return respond(403, `{"type":"urn:belfry:problem:forbidden"}`)
		}
		c := w.client(Config{Addrs: []string{"a:1"}, Key: NewSecret("k")})
		for range 100 {
			w.touchAll(c)
			learned()
		}
		if n := w.countRequests("/v1/map"); n < 2 || n > 12 {
			t.Errorf("the map was asked for %d times in %v", n, 100*2*maxLook)
		}
		assert.Equal(t, w.carriedTo("b:1"), "", "asked")
	})
}

// authority signs the certificates of a test.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert = a.make("ca", nil)
	return a
}

// file returns the path of a file of the authority's folder.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// make writes NAME.pem and NAME.key, the certificate of a name.
func (a *authority) make(name string, parent *authority) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	signer, signed := key, template
	if parent != nil {
		signer, signed = parent.key, parent.cert
	}
	der, signErr := x509.CreateCertificate(rand.Reader, template, signed, key.Public(), signer)
	cert, parseErr := x509.ParseCertificate(der)
	private, keyErr := x509.MarshalPKCS8PrivateKey(key)
	err = errors.Join(err, signErr, parseErr, keyErr, a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private))
	assert.NoError(a.t, err)
	return key, cert
}

// write replaces a file of the folder.
func (a *authority) write(name, kind string, der []byte) error {
	next := a.file("next")
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, a.file(name)))
}

// TestClientCertificate checks that calls show the certificate of the files, and the new one after a renewal. A pair
// that does not fit together leaves the earlier one in use.
func TestClientCertificate(t *testing.T) {
	a := newAuthority(t)
	a.make("node", a)
	a.make("shop", a)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // each call makes a connection
		_, _ = io.WriteString(w, `{"id":"`+r.TLS.PeerCertificates[0].SerialNumber.String()+`"}`)
	}))
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	pair, err := tls.LoadX509KeyPair(a.file("node.pem"), a.file("node.key"))
	assert.NoError(t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	security, err := LoadTLS(a.file("ca.pem"), a.file("shop.pem"), a.file("shop.key"))
	assert.NoError(t, err)
	security.ServerName = "localhost"
	c, err := New(Config{Addrs: []string{server.URL}, TLS: security, FixedAddrs: true})
	assert.NoError(t, err)
	defer c.Close()
	certificate := func() string {
		task, err := c.Get(t.Context(), "a")
		assert.NoError(t, err)
		return task.ID
	}
	first := certificate()
	old, err := os.ReadFile(a.file("shop.key"))
	assert.NoError(t, err)
	a.make("shop", a)
	fresh, err := os.ReadFile(a.file("shop.key"))
	assert.NoError(t, err)
	assert.NoError(t, os.WriteFile(a.file("shop.key"), old, 0o600))
	assert.Equal(t, certificate(), first, "half of a pair is in use")
	assert.NoError(t, os.WriteFile(a.file("shop.key"), fresh, 0o600))
	if got := certificate(); got == first {
		t.Errorf("the new pair is not in use")
	}
}

// TestFaultyTLSFiles checks that the errors name the file.
func TestFaultyTLSFiles(t *testing.T) {
	a := newAuthority(t)
	a.make("shop", a)
	for want, files := range map[string][3]string{
		"none.pem":           {a.file("none.pem"), "", ""},
		"no certificate in":  {a.file("ca.key"), "", ""},
		"has no key":         {"", a.file("shop.pem"), ""},
		"has no certificate": {"", "", a.file("shop.key")},
		"ca.key":             {"", a.file("shop.pem"), a.file("ca.key")},
		"none.key":           {"", a.file("shop.pem"), a.file("none.key")},
	} {
		if _, err := LoadTLS(files[0], files[1], files[2]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", files, err)
		}
	}
}
