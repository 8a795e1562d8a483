package callers_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node/internal/callers"
)

// looks is a time in which a node looks at its files at least twice.
const looks = 5 * time.Second

// keys are the keys of a cluster that has none.
type keys struct {
	mu       sync.Mutex
	enforced int
	err      error // of Enforce
	inForce  bool
}

func (k *keys) KeysVersion() uint64                 { return 1 }
func (k *keys) Key(string) (access.KeyRecord, bool) { return access.KeyRecord{}, false }
func (k *keys) KeyUsed(string)                      {}

func (k *keys) KeysInForce() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inForce
}

func (k *keys) Enforce(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enforced++
	k.inForce = k.err == nil
	return k.err
}

// world is the files of a node, and its callers.
type world struct {
	*callers.Callers
	t        *testing.T
	dir      string
	cfg      callers.Config
	registry *prometheus.Registry
	reload   chan struct{}
	log      assert.Log
}

// logged returns the number of log lines with a text, and forgets all lines.
func (w *world) logged(text string) int {
	synctest.Wait()
	return w.log.Take(text)
}

const roles = `[{"cn": "ops", "grants": [{"role": "operate", "namespace": "*"}]}]`

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), registry: prometheus.NewRegistry(), reload: make(chan struct{})}
	w.cfg = callers.Config{
		Reload: w.reload, Registerer: w.registry, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	return w
}

func (w *world) path(file string) string { return filepath.Join(w.dir, file) }

func (w *world) write(file, text string) string {
	w.t.Helper()
	assert.NoError(w.t, os.WriteFile(w.path(file), []byte(text), 0o600))
	return w.path(file)
}

// newRoot writes a new root key.
func (w *world) newRoot() (text string) {
	_, text = access.NewKey()
	w.cfg.RootKeyFile = w.write("root.key", text+"\n")
	return text
}

// open opens the files. run keeps them up to date until the test ends, and must be called in a bubble.
func (w *world) open() *world {
	w.t.Helper()
	var err error
	w.Callers, err = callers.Open(w.cfg)
	assert.NoError(w.t, err)
	return w
}

func (w *world) run() *world {
	w.t.Helper()
	w.open()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return w
}

// kind returns the kind of a call's caller, or of its refusal.
func (w *world) kind(c access.Credentials) string {
	w.t.Helper()
	caller, err := w.Caller(w.t.Context(), c)
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		return refusal.Kind.String()
	}
	assert.NoError(w.t, err)
	return caller.Kind
}

func bearer(key string) access.Credentials { return access.Credentials{Authorization: "Bearer " + key} }

// A node with credentials of its own demands them before it knows its cluster. A node without any lets no call through
// before it knows that none are needed.
func TestBeforeTheClusterIsKnown(t *testing.T) {
	none := newWorld(t).open()
	assert.Equal(t, none.kind(access.Credentials{}), "unavailable", "without credentials")
	none.Use(new(keys))
	assert.Equal(t, none.kind(access.Credentials{}), access.KindLocal, "with none in force")
	for want, last := range map[string]*keys{access.KindLocal: {}, "missing": {inForce: true}} {
		w := newWorld(t)
		w.cfg.Before = last
		assert.Equal(t, w.open().kind(access.Credentials{}), want, "by the keys known last")
	}
	own := newWorld(t)
	root := own.newRoot()
	own.open()
	for want, c := range map[string]access.Credentials{
		access.KindRoot: bearer(root), "missing": {}, "unavailable": bearer(newKey()),
	} {
		assert.Equal(t, own.kind(c), want, "before the cluster")
	}
	own.Use(new(keys))
	assert.Equal(t, own.kind(bearer(newKey())), "unknown", "another key")
}

func newKey() string {
	_, text := access.NewKey()
	return text
}

// A new root key counts within seconds, and the earlier one no more. A faulty file changes nothing but a warning.
func TestRootKeyIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.newRoot()
		w.run().Use(new(keys))
		second := w.newRoot()
		time.Sleep(looks)
		if w.kind(bearer(second)) != access.KindRoot || w.kind(bearer(first)) != "unknown" {
			t.Error("the new root key does not count, or the earlier one does")
		}
		for says, spoil := range map[string]func(){
			"no API key": func() { w.write("root.key", "secret") },
			"chmod":      func() { _ = os.Chmod(w.path("root.key"), 0o644) },
			"no such":    func() { _ = os.Remove(w.path("root.key")) },
		} {
			w.write("root.key", second+"\n")
			_ = os.Chmod(w.path("root.key"), 0o600)
			w.reload <- struct{}{}
			w.logged("")
			spoil()
			if says == "chmod" {
				w.write("root.key", first+"\n") // a change of the mode alone is none
			}
			w.reload <- struct{}{}
			if n := w.logged(says); n != 1 || w.kind(bearer(second)) != access.KindRoot {
				t.Errorf("%s: %d warnings", says, n)
			}
			if err := testutil.GatherAndCompare(w.registry, strings.NewReader(refusedMetric), "belfry_http_credential_files_refused"); err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(w.log.String(), second) {
			t.Error("the log has the key")
		}
	})
}

// TestChangeDuringAttack checks that a changed file gives no new attempts to an address over its limit.
func TestChangeDuringAttack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.newRoot()
		w.run().Use(new(keys))
		for range 100 {
			w.kind(bearer("bfy_cut"))
		}
		w.newRoot()
		w.reload <- struct{}{}
		assert.Equal(t, w.logged("changed file"), 1, "the change is not in use")
		assert.Equal(t, w.kind(bearer("bfy_cut")), "too many", "a further wrong key")
	})
}

const refusedMetric = `# HELP belfry_http_credential_files_refused 1 while a file is faulty and its earlier contents stay in use: root_key, client_roles or token_roles.
# TYPE belfry_http_credential_files_refused gauge
belfry_http_credential_files_refused{file="client_roles"} 0
belfry_http_credential_files_refused{file="root_key"} 1
belfry_http_credential_files_refused{file="token_roles"} 0
`

// The grants of certificates follow their file. A certificate that has ended since tells no caller.
func TestClientCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.ClientRoles = w.write("roles.yaml", roles)
		w.run().Use(new(keys))
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "ops"}, NotAfter: time.Now().Add(time.Hour)}
		may := func() bool {
			caller, err := w.Caller(t.Context(), access.Credentials{Certificate: cert})
			return err == nil && caller.Kind == access.KindCertificate && caller.Allows(access.Need{Role: access.Operate})
		}
		if !may() {
			t.Error("the certificate tells no caller")
		}
		w.write("roles.yaml", strings.Replace(roles, "operate", "read", 1))
		time.Sleep(looks)
		if may() {
			t.Error("the earlier grants count")
		}
		assert.Equal(t, w.kind(access.Credentials{Certificate: cert}), access.KindCertificate, "valid")
		time.Sleep(time.Hour)
		assert.Equal(t, w.kind(access.Credentials{Certificate: cert}), "missing", "ended")
	})
}

// A node with credentials of its own commits that calls need some, as soon as it can. A node without any does not.
func TestEnforce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.newRoot()
		k := &keys{err: errors.New("no leader")}
		w.run()
		time.Sleep(time.Minute)
		w.Use(k)
		time.Sleep(time.Minute)
		k.mu.Lock()
		tries := k.enforced
		k.err = nil
		k.mu.Unlock()
		time.Sleep(time.Minute)
		if tries < 5 || tries > 20 || !k.KeysInForce() || k.enforced != tries+1 {
			t.Errorf("%d tries and then %d", tries, k.enforced)
		}
		none, idle := newWorld(t), new(keys)
		none.run().Use(idle)
		time.Sleep(time.Minute)
		if idle.enforced > 0 {
			t.Error("a node without credentials puts keys in force")
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for setting, spoil := range map[string]func(w *world){
		"root-key-file":     func(w *world) { w.cfg.RootKeyFile = w.write("root.key", "secret") },
		"http-client-roles": func(w *world) { w.cfg.ClientRoles = w.write("roles.yaml", "[]") },
		"oidc-roles":        func(w *world) { w.cfg.Issuer, w.cfg.TokenRoles = "https://issuer.example", w.path("absent") },
		"oidc-ca": func(w *world) {
			w.issuer("https://issuer.example")
			w.cfg.IssuerCA = w.write("ca.pem", "secret")
		},
		"oidc-issuer": func(w *world) {
			w.issuer("http://issuer.example")
		},
	} {
		w := newWorld(t)
		spoil(w)
		_, err := callers.Open(w.cfg)
		var file *callers.FileError
		if !errors.As(err, &file) || file.Setting != setting || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// issuer makes tokens of an issuer count.
func (w *world) issuer(url string) {
	w.cfg.Issuer, w.cfg.Audience = url, "belfry"
	w.cfg.TokenRoles = w.write("claims.yaml", "rules: [{claim: a, values: [b], grants: [{role: read, namespace: '*'}]}]")
}

// TestAuthorityOfIssuer checks that an issuer whose certificate is of a private authority is reached if the authority
// is named.
func TestAuthorityOfIssuer(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		http.NotFound(rw, r)
	}))
	t.Cleanup(server.Close)
	w := newWorld(t)
	w.issuer(server.URL)
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	w.cfg.IssuerCA = w.write("ca.pem", string(pem.EncodeToMemory(&block)))
	c := w.open()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	c.Use(new(keys))
	assert.Equal(t, <-asked, "/.well-known/openid-configuration", "asked for")
}

// The metric of the issuer shows that it was not reached. A node without an issuer has none.
func TestMetricOfIssuer(t *testing.T) {
	const name = "belfry_oidc_last_answer_timestamp_seconds"
	if n, err := testutil.GatherAndCount(newWorld(t).open().registry, name); n != 0 || err != nil {
		t.Errorf("without an issuer: %d, %v", n, err)
	}
	w := newWorld(t)
	w.issuer("https://issuer.example")
	families, err := w.open().registry.Gather()
	assert.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name && f.Metric[0].Gauge.GetValue() == 0 {
			return
		}
	}
	t.Errorf("no %s of 0", name)
}
