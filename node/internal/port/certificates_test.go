package port

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
)

// looks is a time in which a node looks at its files at least twice.
const looks = 5 * time.Second

// world is an operator's folder, a node's copies of its files, and the node's view of them.
type world struct {
	*Certificates
	t        *testing.T
	folder   *certs.Folder
	dir      string // the node's copies
	registry *prometheus.Registry
	log      assert.Log
	reload   chan struct{}
}

// logged returns the number of log lines with a text, and forgets all lines.
func (w *world) logged(text string) int {
	synctest.Wait()
	return w.log.Take(text)
}

// open opens the files of a node on this machine.
func open(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), registry: prometheus.NewRegistry(), reload: make(chan struct{})}
	var err error
	w.folder, err = certs.Init(certs.Config{Dir: filepath.Join(t.TempDir(), "certs")},
		[]certs.Node{{Name: "n1", Hosts: []string{"127.0.0.1"}}, {Name: "n2"}})
	assert.NoError(t, err)
	w.copy("n1")
	w.Certificates, err = Open(w.config())
	assert.NoError(t, err)
	return w
}

func (w *world) config() Config {
	return Config{
		Files: Files{Cert: w.path("node.pem"), Key: w.path("node.key"), ClientCA: w.path("ca.pem")}, Host: "127.0.0.1",
		Reload: w.reload, Registerer: w.registry, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
}

// run opens the files and watches them until the test ends. It must be called in a bubble.
func run(t *testing.T) *world {
	t.Helper()
	w := open(t)
	go w.Run(t.Context())
	synctest.Wait()
	return w
}

func (w *world) path(file string) string { return filepath.Join(w.dir, file) }

// copy copies the files of a node, or some of them, to the node of the test.
func (w *world) copy(name string, files ...string) {
	w.t.Helper()
	if files == nil {
		files = []string{"node.pem", "node.key", "ca.pem"}
	}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(w.folder.NodeDir(name), file))
		assert.NoError(w.t, err)
		w.write(file, data)
	}
}

func (w *world) write(file string, data []byte) {
	w.t.Helper()
	assert.NoError(w.t, os.WriteFile(w.path(file), data, 0o600))
}

// cut leaves half of a file.
func (w *world) cut(file string) {
	w.t.Helper()
	data, err := os.ReadFile(w.path(file))
	assert.NoError(w.t, err)
	w.write(file, data[:len(data)/2])
}

// trust returns the settings of a caller that trusts the folder's authority.
func (w *world) trust() *tls.Config {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.folder.NodeDir("n1"), "ca.pem"))
	assert.NoError(w.t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	return &tls.Config{RootCAs: pool}
}

// served returns the fingerprint of the certificate that a new connection is shown.
func (w *world) served() string {
	w.t.Helper()
	cert, err := w.TLS().GetCertificate(nil)
	assert.NoError(w.t, err)
	return peerkeys.Fingerprint(cert.Leaf.Raw)
}

// callers returns the settings of a new connection for callers' certificates.
func (w *world) callers() *tls.Config {
	w.t.Helper()
	cfg, err := w.TLS().GetConfigForClient(nil)
	assert.NoError(w.t, err)
	return cfg
}

// metric returns the value of a gauge or counter of a kind.
func (w *world) metric(name, kind string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	assert.NoError(w.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == kind {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	w.t.Fatalf("no metric %s of %s", name, kind)
	return 0
}

// TestWarningOfMode checks that the node starts, and warns of a key that others may read.
func TestWarningOfMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		if n := w.logged("others may read"); n != 0 {
			t.Errorf("mode 0600: %d warnings", n)
		}
		assert.NoError(t, os.Chmod(w.path("node.key"), 0o644))
		cfg := w.config()
		cfg.Registerer = prometheus.NewRegistry()
		_, err := Open(cfg)
		assert.NoError(t, err)
		if n := w.logged("others may read"); n != 1 {
			t.Errorf("mode 0644: %d warnings", n)
		}
	})
}

// New files are in use some seconds after they were copied, and at once after a reload.
func TestNewFilesAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		for i, arrive := range []func(){func() { time.Sleep(looks) }, func() { w.reload <- struct{}{} }} {
			before := w.served()
			assert.NoError(t, w.folder.Renew(nil))
			w.copy("n1")
			arrive()
			if n := w.logged("a new certificate is in use"); n != 1 || w.served() == before {
				t.Errorf("logged %d times", n)
			}
			assert.Equal(t, w.metric("belfry_http_certificate_changes_total", "certificate"), float64(i+1), "changes")
		}
		end := time.Unix(int64(w.metric("belfry_http_certificate_expiry_timestamp_seconds", "certificate")), 0)
		if days := time.Until(end).Hours() / 24; days < 364 || days > 365 {
			t.Errorf("%v days are left", days)
		}
		if left := time.Until(w.Ends()); left < 364*24*time.Hour || left > 365*24*time.Hour {
			t.Errorf("%v are left", left)
		}
	})
}

// Faulty files change nothing but a warning and a metric. A fault in one value does not hold up the other.
func TestFaultyFilesAreNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(w *world)
		kind  string
		says  string
	}{
		"a certificate is cut off": {func(w *world) { w.cut("node.pem") }, "certificate", "cut off"},
		"the key is another's":     {func(w *world) { w.copy("n2", "node.key") }, "certificate", "does not match"},
		"a file is missing":        {func(w *world) { _ = os.Remove(w.path("node.key")) }, "certificate", "no such file"},
		"the certificate has ended": {func(w *world) {
			cfg := certs.Config{Dir: filepath.Join(w.t.TempDir(), "c"), NodeValidity: 24 * time.Hour}
			other, err := certs.Init(cfg, []certs.Node{{Name: "n1"}})
			assert.NoError(w.t, err)
			time.Sleep(25 * time.Hour)
			w.folder = other
			w.copy("n1", "node.pem", "node.key")
		}, "certificate", "is not valid now"},
		"the authorities are cut off": {func(w *world) { w.cut("ca.pem") }, "client_ca", "cut off"},
		"the authority is none":       {func(w *world) { w.write("ca.pem", nodePEM(w)) }, "client_ca", "of no authority"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := run(t)
				own, before, authorities := w.folder, w.served(), w.callers().ClientCAs
				c.fault(w)
				time.Sleep(looks)
				assert.Equal(t, w.logged("faulty"), 1, "warnings")
				w.reload <- struct{}{} // says it again
				assert.Equal(t, w.logged(c.says), 1, "%q is said N times", c.says)
				if w.metric("belfry_http_certificate_files_refused", c.kind) != 1 || w.served() != before ||
					!w.callers().ClientCAs.Equal(authorities) {
					t.Error("faulty files were taken")
				}
				if c.kind == "client_ca" {
					assert.NoError(t, own.Renew(nil))
					w.copy("n1", "node.pem", "node.key")
					time.Sleep(looks)
					if w.served() == before {
						t.Error("a fault of the authorities holds up the certificate")
					}
				}
				w.folder = own
				w.copy("n1")
				time.Sleep(looks)
				assert.Equal(t, w.metric("belfry_http_certificate_files_refused", c.kind), 0, "sound files were not taken")
			})
		})
	}
}

func nodePEM(w *world) []byte {
	data, err := os.ReadFile(w.path("node.pem"))
	assert.NoError(w.t, err)
	return data
}

// A new authority counts for the next connection.
func TestNewAuthoritiesAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t)
		before := w.callers()
		if before.ClientAuth != tls.VerifyClientCertIfGiven || !before.SessionTicketsDisabled {
			t.Errorf("%v, resumption %v", before.ClientAuth, !before.SessionTicketsDisabled)
		}
		_, err := w.folder.RotateAuthority(certs.Install)
		assert.NoError(t, err)
		w.copy("n1")
		time.Sleep(looks)
		if n := w.logged("authorities=2"); n != 1 || w.callers().ClientCAs.Equal(before.ClientCAs) {
			t.Errorf("logged %d times", n)
		}
	})
}

// From thirty days before the end on there is a warning each day, and after the end an error each hour. A certificate
// that names another host is warned of.
func TestReminders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t)
		cfg := w.config()
		cfg.Every, cfg.Registerer, cfg.Host = 30*time.Minute, nil, "belfry.example"
		c, err := Open(cfg)
		assert.NoError(t, err)
		if n := w.logged("does not name the host"); n != 1 {
			t.Errorf("another host: %d warnings", n)
		}
		go c.Run(t.Context())
		time.Sleep(334 * 24 * time.Hour)
		assert.Equal(t, w.logged("level=WARN"), 0, "warnings a month before the end")
		time.Sleep(10*24*time.Hour + time.Hour)
		if n := w.logged("ends soon"); n < 9 || n > 10 {
			t.Errorf("%d warnings in ten days", n)
		}
		time.Sleep(22 * 24 * time.Hour)
		w.logged("")
		time.Sleep(3 * time.Hour)
		assert.Equal(t, w.logged("level=ERROR"), 3, "errors in three hours after the end")
	})
}

func TestOpenRefusesFaultyFiles(t *testing.T) {
	for says, fault := range map[string]func(w *world){
		"cut off":        func(w *world) { w.cut("node.pem") },
		"does not match": func(w *world) { w.copy("n2", "node.key") },
		"no such file":   func(w *world) { _ = os.Remove(w.path("ca.pem")) },
		"no authority":   func(w *world) { w.write("ca.pem", nodePEM(w)) },
	} {
		w := open(t)
		fault(w)
		cfg := w.config()
		cfg.Registerer = nil
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), w.dir) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
