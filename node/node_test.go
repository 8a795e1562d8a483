package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// stragglers is how long a goroutine of memberlist or Raft may outlive its closed node, waiting for an answer. A bubble
// must not end before its goroutines.
const stragglers = time.Minute

// simulate runs a test in a bubble of testing/synctest: the clock moves only when every goroutine waits. Nodes of such a
// test are on a network in memory.
func simulate(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(stragglers) }) // last
		test(t)
	})
}

// testConfig returns the settings of a node with its data in a temporary folder, and in a test on a network of its own
// in memory. A benchmark's nodes have free ports of the system.
func testConfig(t testing.TB) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0"
	cfg.Shards = 4
	cfg.Fatal = func(err error) { panic(err) }
	if _, measured := t.(*testing.B); !measured {
		cfg.Network = memnet.New()
	}
	return cfg
}

// start runs a node until the test ends, and returns it with a client of it.
func start(t *testing.T, cfg Config) (*Node, *client.Client) {
	t.Helper()
	n, err := Start(t.Context(), cfg)
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, n.Close(), nil)
	})
	return n, dial(t, n)
}

// transport returns a transport of HTTP on the network of a node.
func transport(t testing.TB, cfg Config) *http.Transport {
	t.Helper()
	tr := &http.Transport{}
	if cfg.Network != nil {
		tr.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) { return cfg.Network.Dial(ctx, addr) }
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// plain returns an HTTP client on the network of a node.
func plain(t testing.TB, cfg Config) *http.Client {
	t.Helper()
	return &http.Client{Transport: transport(t, cfg)}
}

// serve serves a handler on the network of a node until the test ends, and returns its URL.
func serve(t testing.TB, cfg Config, handler http.Handler) (url string) {
	t.Helper()
	l, err := cfg.listen("127.0.0.1:0")
	assert.NoError(t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerPeriod}
	t.Cleanup(func() {
		assert.Equal(t, server.Close(), nil)
	})
	go func() { _ = server.Serve(l) }() // its error is that of Close
	return "http://" + l.Addr().String()
}

// dial returns a client of a node that is ready.
func dial(t testing.TB, n *Node) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: []string{n.HTTPAddr()}, HTTPClient: plain(t, n.cfg)})
	assert.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	assert.NoError(t, c.Ready(ctx))
	return c
}

// A node in the test's own process schedules a task, hands it out, and leaves no goroutine behind after Close. Its
// folder opens again.
func TestNodeInProcess(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		cfg.ProfileAddr, cfg.PIDFile = "127.0.0.1:0", filepath.Join(t.TempDir(), "pid")
		for _, want := range []error{client.ErrNotFound, nil} {
			n, err := Start(t.Context(), cfg)
			assert.NoError(t, err)
			c := dial(t, n)
			if _, err := c.Get(t.Context(), "kept"); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			for _, task := range []client.Task{{ID: "kept", Delay: time.Hour}, {ID: "due", Queue: "q"}} {
				_, err := c.Schedule(t.Context(), task)
				assert.Equal(t, err, nil)
			}
			tasks, err := c.Lease(t.Context(), "q", client.Demand{Wait: 20 * time.Second})
			if err != nil || len(tasks) != 1 || tasks[0].ID != "due" {
				t.Fatalf("%+v, %v", tasks, err)
			}
			for _, r := range c.Settle(t.Context(), "q", client.Settlement{Ack: []string{tasks[0].Receipt}}) {
				assert.Equal(t, r.Err, nil)
			}
			if _, err := os.Stat(cfg.PIDFile); err != nil {
				t.Error(err)
			}
			c.Close()
			assert.Equal(t, n.Close(), nil)
			if _, err := os.Stat(cfg.PIDFile); !os.IsNotExist(err) {
				t.Errorf("the PID file is still there: %v", err)
			}
		}
	}) // which fails while a goroutine is left
}

// Run ends with its context, without an error, and closes the node.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg := testConfig(t)
		log := &watchedLog{text: "msg=serving", seen: cancel}
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		if err := Run(ctx, cfg); err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
		if !strings.Contains(log.String(), log.text) {
			t.Errorf("it never served\n%s", log.String())
		}
	})
}

// watchedLog calls a function when a text is written.
type watchedLog struct {
	assert.Log
	text string
	seen func()
}

func (l *watchedLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(l.text)) {
		l.seen()
	}
	return l.Log.Write(p)
}

// smallDisk is this process's host with a disk of 1000 MiB.
type smallDisk struct {
	headroom.System
	free *atomic.Uint64
}

func (d smallDisk) Space() (headroom.Space, error) {
	return headroom.Space{Free: d.free.Load(), Total: 1000 << 20}, nil
}

// A node without room gives the reason at its port, changes no file, and opens its data by itself when there is room.
func TestNodeWaitsForRoom(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		var err error
		cfg.MinFreeDisk, err = headroom.ParseReserve("10%")
		assert.NoError(t, err)
		n, err := newNode(cfg)
		assert.NoError(t, err)
		t.Cleanup(func() {
			assert.Equal(t, n.Close(), nil)
		})
		var free atomic.Uint64
		free.Store(49 << 20)
		n.host = smallDisk{free: &free}
		for _, start := range []func(context.Context) error{n.startMetrics, n.openCallers, n.startDelivery, n.listen} {
			assert.NoError(t, start(t.Context()))
		}
		opened := make(chan error, 1)
		go func() { opened <- n.openCluster(t.Context()) }()
		callers, url := plain(t, cfg), "http://"+n.HTTPAddr()
		for _, c := range [][2]string{{"GET", "/healthz"}, {"GET", "/readyz"}, {"PUT", "/v1/tasks/a"}, {"GET", "/v1/cluster"}} {
			code, body := request(t, callers, c[0], url+c[1])
			var p struct{ Type, Detail string }
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err, body)
			}
			if code != 503 || !strings.Contains(p.Detail, "49MiB are free") || !strings.Contains(p.Detail, "50MiB") {
				t.Errorf("%v: %d %s", c, code, body)
			}
		}
		// It does not know yet whether calls need a key, and so tells no more than the reason.
		if code, body := request(t, callers, "GET", url+"/metrics"); code != 503 || !strings.Contains(body, "49MiB are free") {
			t.Errorf("metrics: %d\n%s", code, body)
		}
		if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
			t.Errorf("the data folder was touched: %v", err)
		}
		free.Store(200 << 20)
		if err := <-opened; err != nil || n.cluster == nil {
			t.Fatalf("not opened: %v", err)
		}
		assert.NoError(t, n.startHTTP(t.Context()))
		if _, err := dial(t, n).Schedule(t.Context(), client.Task{ID: "a", Delay: time.Hour}); err != nil {
			t.Error(err)
		}
	})
}

// A start that fails stops the parts it has started: the port is free again, and no goroutine is left, with which the
// bubble would fail.
func TestFailedStartStops(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		taken, err := cfg.listen("127.0.0.1:0")
		assert.NoError(t, err)
		cfg.HTTPAddr = taken.Addr().String()
		var setting *SettingError
		if _, err := Start(t.Context(), cfg); !errors.As(err, &setting) || setting.Setting != "http" {
			t.Errorf("a port that is taken: %v", err)
		}
		if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
			t.Errorf("the data folder was touched: %v", err)
		}
		assert.NoError(t, taken.Close())
		cfg.BootstrapExpect = 2
		if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "1, 3 or 5") {
			t.Errorf("a cluster of two: %v", err)
		}
		free, err := cfg.listen(cfg.HTTPAddr)
		assert.NoError(t, err)
		_ = free.Close()
	})
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"data: is missing":                                            func(c *Config) { c.DataDir = "" },
		`zone: "a b" is not 1 to 63 letters`:                          func(c *Config) { c.Zone = "a b" },
		"weight: 101 is not within 1 to 100":                          func(c *Config) { c.Weight = 101 },
		"move-rate: 100B a second: 0 for no limit, or 64KiB at least": func(c *Config) { c.MoveRate = 100 },
		"metrics-queues: 0 is not within 1 to 10000":                  func(c *Config) { c.QueueMetrics = 0 },
		`log-store: "memory" is not wal or boltdb`:                    func(c *Config) { c.LogStore = "memory" },
		`timing: "" is not fast, lan or wan`:                          func(c *Config) { c.Timing = "" },
		"allow-host: ":                                                func(c *Config) { c.AllowHosts = []string{"a:80"} },
		"allow-origin: ":                                              func(c *Config) { c.AllowOrigins = []string{"*"} },
		"advertise-http: ":                                            func(c *Config) { c.AdvertiseHTTP = "a b:8400" },
		"http: ":                                                      func(c *Config) { c.HTTPAddr = "a b:8400" },
		"http-cert: the certificate and its key go together":          func(c *Config) { c.TLS.Cert = "a" },
		"http-client-ca: the authorities and the grants":              func(c *Config) { c.TLS.ClientCA = "a" },
		"http-client-ca: needs TLS":                                   func(c *Config) { c.TLS.ClientCA, c.TLS.ClientRoles = "a", "b" },
		"oidc-issuer: the issuer, the audience and the roles":         func(c *Config) { c.Access.OIDCIssuer = "a" },
		"http-plain-loopback: needs TLS":                              func(c *Config) { c.TLS.PlainLoopback = true },
	} {
		cfg := DefaultConfig()
		assert.NoError(t, cfg.Validate())
		change(&cfg)
		err := cfg.Validate()
		var setting *SettingError
		if !errors.As(err, &setting) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func request(t *testing.T, c *http.Client, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	assert.NoError(t, err)
	resp, err := c.Do(req)
	assert.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	return resp.StatusCode, string(body)
}

// TestDevBeginsEmpty checks that a node in dev mode refuses a folder with data: its clock would go back.
func TestDevBeginsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := DevConfig(dir)
	assert.Equal(t, cfg.Validate(), nil)
	assert.NoError(t, os.Mkdir(dir, 0o700))
	assert.Equal(t, cfg.Validate(), nil)
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "some"), nil, 0o600))
	var setting *SettingError
	if err := cfg.Validate(); !errors.As(err, &setting) || setting.Setting != "dev" {
		t.Error(err)
	}
}
