package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// rootKey writes a root key, and returns its file and text.
func rootKey(t *testing.T) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "root.key")
	_, text = access.NewKey()
	assert.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	return path, text
}

// A port that other machines can reach needs credentials and TLS, or a proxy in the place of TLS. The refusal names the
// flag for each fault, and no other.
func TestOpenPortsAreRefused(t *testing.T) {
	const credentials, encryption = "--root-key-file FILE", "--behind-proxy"
	for _, c := range []struct {
		name    string
		change  func(*Config)
		setting string // empty: not refused
		faults  string
	}{
		{"loopback", func(*Config) {}, "", ""},
		{"loopback by name", func(c *Config) { c.HTTPAddr = "localhost:8400" }, "", ""},
		{"loopback of IPv6", func(c *Config) { c.HTTPAddr = "[::1]:8400" }, "", ""},
		{"all addresses", func(c *Config) { c.HTTPAddr = ":8400" }, "http", credentials + encryption},
		{"all addresses of IPv4", func(c *Config) { c.HTTPAddr = "0.0.0.0:8400" }, "http", credentials + encryption},
		{"all addresses of IPv6", func(c *Config) { c.HTTPAddr = "[::]:8400" }, "http", credentials + encryption},
		{"a root key", func(c *Config) { c.HTTPAddr, c.Access.RootKeyFile = ":8400", "root.key" }, "http", encryption},
		{"TLS", func(c *Config) { c.HTTPAddr, c.TLS = ":8400", TLSConfig{Cert: "a", Key: "b"} }, "http", credentials},
		{"a root key and TLS", func(c *Config) {
			c.HTTPAddr, c.TLS, c.Access.RootKeyFile = ":8400", TLSConfig{Cert: "a", Key: "b"}, "root.key"
		}, "", ""},
		{"an issuer and TLS", func(c *Config) {
			c.HTTPAddr, c.TLS = ":8400", TLSConfig{Cert: "a", Key: "b"}
			c.Access = AccessConfig{OIDCIssuer: "https://a", OIDCAudience: "b", OIDCRoles: "c"}
		}, "", ""},
		{"client certificates", func(c *Config) {
			c.HTTPAddr, c.TLS = ":8400", TLSConfig{Cert: "a", Key: "b", ClientCA: "c", ClientRoles: "d"}
		}, "", ""},
		{"a root key and a proxy", func(c *Config) {
			c.HTTPAddr, c.BehindProxy, c.Access.RootKeyFile = ":8400", true, "root.key"
		}, "", ""},
		{"a proxy alone", func(c *Config) { c.BehindProxy = true }, "behind-proxy", credentials},
		{"profiles", func(c *Config) { c.ProfileAddr = ":6060" }, "pprof", credentials + encryption},
		{"profiles on loopback", func(c *Config) { c.ProfileAddr = "127.0.0.1:6060" }, "", ""},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		err := cfg.Validate()
		var setting *SettingError
		if c.setting == "" {
			assert.Equal(t, err, nil, "%s", c.name)
			continue
		}
		if !errors.As(err, &setting) || setting.Setting != c.setting {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, flag := range []string{credentials, encryption} {
			assert.Equal(t, strings.Contains(err.Error(), flag), strings.Contains(c.faults, flag), "%s: %v", c.name, err)
		}
	}
}

// The refusal names the certificate between nodes, which will do for callers, too.
func TestPeerCertificateIsNamed(t *testing.T) {
	cfg := DefaultConfig()
	cfg.HTTPAddr, cfg.Access.RootKeyFile = ":8400", "root.key"
	cfg.PeerKeys = &peerkeys.Files{Cert: "/etc/n.pem", Key: "/etc/n.key", CA: "ca.pem", Gossip: "gossip.key"}
	want := "--http-cert /etc/n.pem and --http-key /etc/n.key"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// A name that leads to another address than loopback is refused once it is bound.
func TestBoundAddressIsJudged(t *testing.T) {
	cfg := DefaultConfig()
	for addr, open := range map[string]bool{
		"127.0.0.1": false, "::1": false, "10.0.0.1": true, "0.0.0.0": true, "::": true,
	} {
		err := cfg.checkBound(&net.TCPAddr{IP: net.ParseIP(addr), Port: 8400})
		assert.Equal(t, err != nil, open, "%s: %v", addr, err)
	}
	cfg.HTTPAddr = "belfry.example:8400"
	assert.Equal(t, cfg.Validate(), nil, "a name is judged before it is resolved")
}

// asCaller makes a call with a key, and returns the status and the body.
func asCaller(t *testing.T, c *http.Client, method, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	assert.NoError(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.Do(req)
	assert.NoError(t, err)
	defer resp.Body.Close()
	var body strings.Builder
	assert.NoError(t, resp.Write(&body))
	return resp.StatusCode, body.String()
}

const ops = `[{"cn": "n1", "grants": [{"role": "operate", "namespace": "*"}]}]`

// A node with a root key and client certificates knows its callers by them, on the API and on the port of the profiles.
func TestCallersOfANode(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		k := newKeyring(t)
		cfg := testConfig(t)
		root, key := rootKey(t)
		cfg.TLS, cfg.Access.RootKeyFile, cfg.ProfileAddr = k.tls(), root, freeAddr(t, cfg)
		cfg.TLS.ClientCA, cfg.TLS.ClientRoles = k.path("ca.pem"), filepath.Join(t.TempDir(), "roles.yaml")
		assert.NoError(t, os.WriteFile(cfg.TLS.ClientRoles, []byte(ops), 0o600))
		n, err := Start(t.Context(), cfg)
		assert.NoError(t, err)
		defer func() {
			assert.Equal(t, n.Close(), nil)
		}()
		stranger, operator := k.caller(cfg, true), k.caller(cfg, true)
		operator.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{k.pair(t)}
		api, profile := "https://"+n.HTTPAddr(), "http://"+cfg.ProfileAddr+"/debug/pprof/cmdline"
		awaitReady(t, stranger, api)
		_, wrong := access.NewKey()
		for _, c := range []struct {
			name   string
			caller *http.Client
			url    string
			key    string
			want   int
		}{
			{"health", stranger, api + "/healthz", "", 200},
			{"contract", stranger, api + "/openapi.yaml", "", 200},
			{"metrics without a key", stranger, api + "/metrics", "", 401},
			{"metrics with the root key", stranger, api + "/metrics", key, 200},
			{"tasks without a key", stranger, api + "/v1/tasks", "", 401},
			{"tasks with a wrong key", stranger, api + "/v1/tasks", wrong, 401},
			{"tasks with the root key", stranger, api + "/v1/tasks", key, 200},
			{"tasks with a certificate", operator, api + "/v1/tasks", "", 200},
			{"profiles without a key", stranger, profile, "", 401},
			{"profiles with a wrong key", stranger, profile, wrong, 401},
			{"profiles with the root key", stranger, profile, key, 200},
			{"profiles with a certificate", operator, strings.Replace(profile, "http:", "https:", 1), "", 200},
		} {
			status, body := asCaller(t, c.caller, "GET", c.url, c.key)
			if status != c.want || status == 401 && !strings.Contains(body, "Bearer") {
				t.Errorf("%s: %d, want %d\n%s", c.name, status, c.want, body)
			}
		}
		for path, want := range map[string]int{"/v1/queues/q/pause": 200, "/v1/tasks/a/fire": 403} {
			status, body := asCaller(t, operator, "POST", api+path, "")
			assert.Equal(t, status, want, "POST %s with the certificate of an operator: %s", path, body)
		}
	})
}

// pair returns the node's certificate with its key: it is one of a client, too.
func (k *keyring) pair(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(k.path("node.pem"), k.path("node.key"))
	assert.NoError(t, err)
	return pair
}

// freeAddr returns an address on loopback that is free on the network of a node.
func freeAddr(t testing.TB, cfg Config) string {
	t.Helper()
	l, err := cfg.listen("127.0.0.1:0")
	assert.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// The doctor names an issuer that does not answer as it should, and is silent once the issuer does.
func TestDoctorNamesIssuer(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		var answers atomic.Bool
		documents := map[string]string{}
		cfg := testConfig(t)
		issuer := serve(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !answers.Load() {
				http.Error(w, strings.Repeat("away ", 1000), http.StatusBadGateway)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, documents[r.URL.Path])
			assert.Equal(t, err, nil)
		}))
		documents["/.well-known/openid-configuration"] = fmt.Sprintf(`{"issuer": %[1]q, "jwks_uri": "%[1]s/keys"}`, issuer)
		documents["/keys"] = `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "` + // of RFC 8037, appendix A.2
			`11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
		roles := filepath.Join(t.TempDir(), "roles.yaml")
		rule := "rules: [{claim: a, values: [b], grants: [{role: read, namespace: c}]}]"
		assert.NoError(t, os.WriteFile(roles, []byte(rule), 0o600))
		cfg.Access = AccessConfig{OIDCIssuer: issuer, OIDCAudience: "belfry", OIDCRoles: roles}
		n, _ := start(t, cfg)
		found := func() (f doctor.Finding, there bool) {
			all := n.cluster.Doctor(t.Context())
			if i := slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Code == doctor.IssuerAway }); i >= 0 {
				return all[i], true
			}
			return f, false
		}
		until(t, func() bool { _, there := found(); return there })
		f, _ := found()
		reason := "502 Bad Gateway: away away"
		if f.Severity != doctor.Critical || !strings.Contains(f.Summary, reason) || len(f.Summary) > 600 {
			t.Errorf("%+v", f)
		}
		answers.Store(true)
		until(t, func() bool { _, there := found(); return !there })
	})
}

// A trace ends after its key was revoked, and the audit log has it, as it has a profile. The test takes real time: no
// bubble's clock moves while the runtime writes a trace.
func TestProfilesOfRevokedKey(t *testing.T) {
	cfg := DevConfig(filepath.Join(t.TempDir(), "data")) // it is ready soon
	cfg.Network = memnet.New()
	root, rootText := rootKey(t)
	cfg.Access.RootKeyFile, cfg.ProfileAddr = root, freeAddr(t, cfg)
	n, _ := start(t, cfg)
	callers := plain(t, cfg)
	api, profiles := "http://"+n.HTTPAddr(), "http://"+cfg.ProfileAddr+"/debug/pprof/"
	send := func(method, url, key, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		assert.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := callers.Do(req)
		assert.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() }) // it may have been broken off
		return resp
	}
	var made struct{ ID, Key string }
	resp := send("POST", api+"/v1/keys", rootText, `{"name":"ann","grants":[{"role":"admin","namespace":"*"}]}`)
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.Key == "" {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	if resp := send("GET", profiles+"heap", made.Key, ""); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	trace := send("GET", profiles+"trace?seconds=300", made.Key, "")
	assert.MustEqual(t, trace.StatusCode, http.StatusOK, "%v", trace.Status)
	if resp := send("DELETE", api+"/v1/keys/"+made.ID, rootText, ""); resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.Status)
	}
	if _, err := io.Copy(io.Discard, trace.Body); err == nil {
		t.Error("the trace of a revoked key ends whole")
	}
	records, err := io.ReadAll(send("GET", api+"/v1/audit?limit=1000", rootText, "").Body)
	for _, name := range []string{`/debug/pprof/","object":{"name":"heap"}`, `/debug/pprof/trace"`} {
		want := `"id":"` + made.ID + `","name":"ann"},"from":"127.0.0.1","method":"GET","route":"` + name
		if err != nil || strings.Count(string(records), want) == 0 {
			t.Errorf("no %s in %s", want, records)
		}
	}
}

// The profiles of a node without credentials are open on loopback, but not to web pages.
func TestProfilesWithoutCredentials(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		cfg.ProfileAddr = freeAddr(t, cfg)
		start(t, cfg)
		callers := plain(t, cfg)
		url := "http://" + cfg.ProfileAddr + "/debug/pprof/cmdline"
		status, body := asCaller(t, callers, "GET", url, "")
		assert.Equal(t, status, 200, "%s", body)
		req, err := http.NewRequestWithContext(t.Context(), "GET", url, http.NoBody)
		assert.NoError(t, err)
		req.Host = "evil.example:6060"
		resp, err := callers.Do(req)
		assert.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, resp.StatusCode, http.StatusForbidden, "a rebound name: %s", resp.Status)
	})
}

// The keys that the cluster has committed count at a node without files of its own after its restart.
func TestCommittedKeysCount(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		root, key := rootKey(t)
		cfg.Access.RootKeyFile = root
		callers := plain(t, cfg)
		n, err := Start(t.Context(), cfg)
		assert.NoError(t, err)
		awaitReady(t, callers, "http://"+n.HTTPAddr())
		awaitForce(t, n)
		assert.NoError(t, n.Close())
		cfg.Access.RootKeyFile = ""
		n, err = Start(t.Context(), cfg)
		assert.NoError(t, err)
		defer n.Close()
		awaitReady(t, callers, "http://"+n.HTTPAddr())
		for _, text := range []string{"", key} {
			status, body := asCaller(t, callers, "GET", "http://"+n.HTTPAddr()+"/v1/tasks", text)
			assert.Equal(t, status, 401, "%q: %s", text, body)
		}
	})
}

// awaitForce waits until the node itself has committed that calls need credentials.
func awaitForce(t testing.TB, n *Node) {
	t.Helper()
	until(t, func() bool { return n.cluster.Tenants().KeysInForce() })
}

// A node that waits for room goes by the keys that it knew when it ran last.
func TestWaitingNodeRemembersItsKeys(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		for _, demands := range []bool{false, true} {
			cfg := testConfig(t)
			if demands {
				cfg.Access.RootKeyFile, _ = rootKey(t)
			}
			n, err := Start(t.Context(), cfg)
			assert.NoError(t, err)
			awaitReady(t, plain(t, cfg), "http://"+n.HTTPAddr())
			if demands {
				awaitForce(t, n)
			}
			assert.NoError(t, n.Close())
			cfg.Access.RootKeyFile = ""
			cfg.MinFreeDisk, err = headroom.ParseReserve("10%")
			assert.NoError(t, err)
			waitingAnswers(t, cfg, map[bool]int{false: 200, true: 401}[demands])
		}
	})
}

// waitingAnswers checks the answers of a node without room to a call without credentials.
func waitingAnswers(t *testing.T, cfg Config, want int) {
	t.Helper()
	n, err := newNode(cfg)
	assert.NoError(t, err)
	var free atomic.Uint64
	free.Store(49 << 20)
	n.host = smallDisk{free: &free}
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	for _, start := range []func(context.Context) error{n.startMetrics, n.followReload, n.openCallers, n.listen} {
		assert.NoError(t, start(ctx))
	}
	go func() { started <- n.newGate().Await(ctx) }()
	callers := plain(t, cfg)
	for _, path := range []string{"/metrics", "/v1/doctor"} {
		if status, body := asCaller(t, callers, "GET", "http://"+n.HTTPAddr()+path, ""); status != want {
			t.Errorf("%s: %d, want %d\n%s", path, status, want, body)
		}
	}
	cancel()
	assert.Equal(t, errors.Join(<-started, n.Close()), nil)
}
