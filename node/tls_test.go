package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
)

// keyring is an operator's folder with a certificate of a node on this machine.
type keyring struct {
	t testing.TB
	*certs.Folder
	dir string // of the node's copies
}

func newKeyring(t testing.TB) *keyring { return newKeyringFor(t, certs.DefaultNodeValidity) }

// newKeyringFor makes a certificate with a validity.
func newKeyringFor(t testing.TB, validity time.Duration) *keyring {
	t.Helper()
	folder, err := certs.Init(certs.Config{Dir: filepath.Join(t.TempDir(), "certs"), NodeValidity: validity},
		[]certs.Node{{Name: "n1", Hosts: []string{"127.0.0.1"}}})
	assert.NoError(t, err)
	k := &keyring{t, folder, t.TempDir()}
	k.copy()
	return k
}

// copy copies the files to the node, each as a whole.
func (k *keyring) copy() {
	k.t.Helper()
	for _, file := range []string{"node.pem", "node.key", "ca.pem"} {
		data, err := os.ReadFile(filepath.Join(k.NodeDir("n1"), file))
		assert.NoError(k.t, err)
		assert.NoError(k.t, os.WriteFile(k.path(file), data, 0o600))
	}
}

func (k *keyring) path(file string) string { return filepath.Join(k.dir, file) }

func (k *keyring) tls() TLSConfig {
	return TLSConfig{Cert: k.path("node.pem"), Key: k.path("node.key")}
}

// caller returns a client on the network of a node that trusts the folder's authority. Without keepAlive each call has a
// new connection.
func (k *keyring) caller(cfg Config, keepAlive bool) *http.Client {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.NodeDir("n1"), "ca.pem"))
	assert.NoError(k.t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	tr := transport(k.t, cfg)
	tr.TLSClientConfig, tr.ForceAttemptHTTP2, tr.DisableKeepAlives = &tls.Config{RootCAs: pool}, true, !keepAlive
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// call makes a call, and returns its answer and the answer's body.
func call(ctx context.Context, c *http.Client, method, url, body string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// awaitReady waits until a node is ready.
func awaitReady(t testing.TB, c *http.Client, base string) {
	t.Helper()
	until(t, func() bool {
		resp, _, err := call(t.Context(), c, "GET", base+"/readyz", "")
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// One port serves TLS, with HTTP/2, and plain HTTP to this machine if that is wanted.
func TestOnePortForTLSAndPlain(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		k := newKeyring(t)
		for _, plain := range []bool{false, true} {
			cfg := testConfig(t)
			cfg.TLS, cfg.ProfileAddr = k.tls(), "127.0.0.1:0"
			cfg.TLS.PlainLoopback = plain
			n, err := Start(t.Context(), cfg)
			assert.NoError(t, err)
			c := k.caller(cfg, true)
			awaitReady(t, c, "https://"+n.HTTPAddr())
			resp, body, err := call(t.Context(), c, "PUT", "https://"+n.HTTPAddr()+"/v1/tasks/a", `{"delay": "1h"}`)
			if err != nil || resp.StatusCode != http.StatusCreated || resp.ProtoMajor != 2 {
				t.Errorf("TLS: %+v %s %v", resp, body, err)
			}
			resp, body, err = call(t.Context(), c, "GET", "http://"+n.HTTPAddr()+"/v1/tasks/a", "")
			if works := err == nil && resp.StatusCode == http.StatusOK; works != plain {
				t.Errorf("plain, %v: %+v %s %v", plain, resp, body, err)
			}
			_, body, err = call(t.Context(), c, "GET", "https://"+n.HTTPAddr()+"/v1/cluster", "")
			if !strings.Contains(body, `"http_url":"https://`+n.HTTPAddr()+`"`) {
				t.Errorf("the node announces %s %v", body, err)
			}
			assert.Equal(t, n.Close(), nil)
		}
	})
}

// Doctor and a metric tell of a certificate that ends.
func TestEndingCertificateIsFound(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		k := newKeyringFor(t, 48*time.Hour)
		cfg := testConfig(t)
		cfg.TLS = k.tls()
		n, err := Start(t.Context(), cfg)
		assert.NoError(t, err)
		defer n.Close()
		c, base := k.caller(cfg, true), "https://"+n.HTTPAddr()
		awaitReady(t, c, base)
		_, body, err := call(t.Context(), c, "GET", base+"/v1/doctor", "")
		assert.Contains(t, body, "shows to callers ends in", "%v", err)
		_, page, err := call(t.Context(), c, "GET", base+"/metrics", "")
		assert.NoError(t, err)
		lintMetrics(t, page)
		end := valueOf(t, page, `belfry_http_certificate_expiry_timestamp_seconds{kind="certificate"} `)
		if left := time.Until(time.Unix(int64(end), 0)); left < 47*time.Hour || left > 48*time.Hour {
			t.Errorf("by the metric the certificate ends in %v", left)
		}
	})
}

// A certificate is replaced while callers open connections and keep others: no call fails, and later connections see
// the new certificate.
func TestCertificateIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		k := newKeyring(t)
		cfg := testConfig(t)
		reload := make(chan struct{}, 1)
		cfg.TLS, cfg.Reload = k.tls(), reload
		n, err := Start(t.Context(), cfg)
		assert.NoError(t, err)
		defer n.Close()
		base := "https://" + n.HTTPAddr()
		awaitReady(t, k.caller(cfg, true), base)
		var calls, done atomic.Int64
		var load sync.WaitGroup
		for i := range 6 {
			c := k.caller(cfg, i%2 == 0)
			load.Go(func() {
				for j := 0; done.Load() == 0; j++ {
					<-time.After(time.Millisecond)
					resp, body, err := call(t.Context(), c, "PUT", fmt.Sprintf("%s/v1/tasks/t%d-%d", base, i, j), `{"delay": "1h"}`)
					if err != nil || resp.StatusCode != http.StatusCreated {
						t.Errorf("%v %s", err, body)
						return
					}
					calls.Add(1)
				}
			})
		}
		for range 5 {
			renewUnderLoad(t, k, reload, n, &calls)
		}
		done.Store(1)
		load.Wait()
		t.Logf("%d calls", calls.Load())
	})
}

// renewUnderLoad renews the certificate, and waits until a new connection sees it and some more calls have succeeded.
func renewUnderLoad(t *testing.T, k *keyring, reload chan<- struct{}, n *Node, calls *atomic.Int64) {
	t.Helper()
	assert.NoError(t, k.Renew(nil))
	k.copy()
	want, at := k.fingerprint(), calls.Load()
	reload <- struct{}{}
	c := k.caller(n.cfg, false)
	until(t, func() bool {
		resp, _, err := call(t.Context(), c, "GET", "https://"+n.HTTPAddr()+"/healthz", "")
		if err != nil || t.Failed() {
			t.Fatal("a call failed", err)
		}
		return peerkeys.Fingerprint(resp.TLS.PeerCertificates[0].Raw) == want && calls.Load() > at+20
	})
}

func (k *keyring) fingerprint() string {
	k.t.Helper()
	pair, err := tls.LoadX509KeyPair(k.path("node.pem"), k.path("node.key"))
	assert.NoError(k.t, err)
	return peerkeys.Fingerprint(pair.Leaf.Raw)
}

// A node without room answers with the reason by TLS, too, and serves both kinds of connections afterwards.
func TestWaitForRoomSpeaksTLS(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		k := newKeyring(t)
		cfg := testConfig(t)
		cfg.TLS = k.tls()
		cfg.TLS.PlainLoopback = true
		root, key := rootKey(t)
		cfg.Access.RootKeyFile = root
		var err error
		cfg.MinFreeDisk, err = headroom.ParseReserve("10%")
		assert.NoError(t, err)
		n, err := newNode(cfg)
		assert.NoError(t, err)
		var free atomic.Uint64
		free.Store(49 << 20)
		n.host = smallDisk{free: &free}
		defer func() {
			assert.Equal(t, n.Close(), nil)
		}()
		for _, start := range []func(context.Context) error{
			n.startMetrics, n.followReload, n.openCallers, n.listen, n.openCertificates, n.startDelivery,
		} {
			assert.NoError(t, start(t.Context()))
		}
		opened := make(chan error, 1)
		go func() { opened <- n.openCluster(t.Context()) }()
		c, addr := k.caller(cfg, true), n.HTTPAddr()
		for _, scheme := range []string{"https://", "http://"} {
			resp, body, err := call(t.Context(), c, "GET", scheme+addr+"/v1/tasks/a", "")
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "49MiB are free") {
				t.Errorf("%s: %v %s", scheme, err, body)
			}
		}
		for _, path := range []string{"/metrics", "/v1/doctor"} {
			status, _ := asCaller(t, c, "GET", "https://"+addr+path, "")
			assert.Equal(t, status, http.StatusUnauthorized, "%s without a key", path)
			if status, body := asCaller(t, c, "GET", "https://"+addr+path, key); status != http.StatusOK {
				t.Errorf("%s with a key: %d %s", path, status, body)
			} else if path == "/metrics" && !strings.Contains(body, "belfry_disk_low 1") {
				t.Errorf("metrics: %s", body)
			}
		}
		free.Store(200 << 20)
		assert.NoError(t, <-opened)
		assert.NoError(t, n.startHTTP(t.Context()))
		for _, scheme := range []string{"https://", "http://"} {
			awaitReady(t, c, scheme+addr)
		}
	})
}

// Behind a proxy a call has the address that the proxy names. Without the setting a caller cannot choose its address.
func TestAddressBehindProxy(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		for _, behind := range []bool{false, true} {
			cfg := testConfig(t)
			log := new(assert.Log)
			if behind {
				cfg.Access.RootKeyFile, _ = rootKey(t)
			}
			cfg.BehindProxy, cfg.Logger = behind, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			n, _ := start(t, cfg)
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.HTTPAddr()+"/v1/tasks/proxied", http.NoBody)
			assert.NoError(t, err)
			req.Header.Set("X-Forwarded-For", "6.6.6.6, 192.0.2.7")
			resp, err := plain(t, cfg).Do(req)
			assert.NoError(t, err)
			_ = resp.Body.Close()
			line := ""
			for l := range strings.Lines(log.String()) {
				if strings.Contains(l, "path=/v1/tasks/proxied") {
					line = l
				}
			}
			if line == "" || strings.Contains(line, "from=192.0.2.7:0") != behind || strings.Contains(line, "6.6.6.6") {
				t.Errorf("behind a proxy %v: %q", behind, line)
			}
		}
	})
}
