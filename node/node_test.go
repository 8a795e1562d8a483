package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/disk"
)

// testConfig returns the settings of a node on free ports, with its data in a temporary folder.
func testConfig(t testing.TB) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0"
	cfg.Shards = 4
	cfg.Fatal = func(err error) { panic(err) }
	return cfg
}

// start runs a node until the test ends, and returns it with a client of it.
func start(t *testing.T, cfg Config) (*Node, *client.Client) {
	t.Helper()
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n, dial(t, n)
}

// dial returns a client of a node that is ready.
func dial(t *testing.T, n *Node) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: []string{n.HTTPAddr()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// A node in the test's own process schedules a task, hands it out, and leaves no goroutine behind after Close. Its
// folder opens again.
func TestNodeInProcess(t *testing.T) {
	cfg := testConfig(t)
	cfg.ProfileAddr, cfg.PIDFile = "127.0.0.1:0", filepath.Join(t.TempDir(), "pid")
	goroutines := runtime.NumGoroutine()
	for _, want := range []error{client.ErrNotFound, nil} {
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, n)
		if _, err := c.Get(t.Context(), "kept"); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		for _, task := range []client.Task{{ID: "kept", Delay: time.Hour}, {ID: "due", Queue: "q"}} {
			if _, err := c.Schedule(t.Context(), task); err != nil {
				t.Error(err)
			}
		}
		tasks, err := c.Lease(t.Context(), "q", client.Demand{Wait: 20 * time.Second})
		if err != nil || len(tasks) != 1 || tasks[0].ID != "due" {
			t.Fatalf("%+v, %v", tasks, err)
		}
		for _, r := range c.Settle(t.Context(), "q", client.Settlement{Ack: []string{tasks[0].Receipt}}) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
		if _, err := os.Stat(cfg.PIDFile); err != nil {
			t.Error(err)
		}
		c.Close()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(cfg.PIDFile); !os.IsNotExist(err) {
			t.Errorf("the PID file is still there: %v", err)
		}
		awaitGoroutines(t, goroutines)
	}
}

// awaitGoroutines fails the test if there are more goroutines than before. It waits a while for those that are ending.
func awaitGoroutines(t *testing.T, before int) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// Run ends with its context, without an error, and closes the node.
func TestRunEndsWithItsContext(t *testing.T) {
	cfg := testConfig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	logs, to := io.Pipe()
	cfg.Logger = slog.New(slog.NewTextHandler(to, nil))
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(Run(ctx, cfg), to.Close()) }()
	var text strings.Builder
	for buf := make([]byte, 4096); ; {
		n, err := logs.Read(buf)
		if err != nil {
			break
		}
		if text.Write(buf[:n]); strings.Contains(text.String(), "msg=serving") {
			cancel()
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// A node without room gives the reason at its port, changes no file, and opens its data by itself when there is room.
func TestNodeWaitsForRoom(t *testing.T) {
	cfg := testConfig(t)
	var err error
	if cfg.MinFreeDisk, err = disk.Parse("10%"); err != nil {
		t.Fatal(err)
	}
	n, err := newNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	var free atomic.Uint64
	free.Store(49 << 20)
	n.space = func() (disk.Space, error) { return disk.Space{Free: free.Load(), Total: 1000 << 20}, nil }
	for _, start := range []func(context.Context) error{n.startMetrics, n.openCallers, n.startDelivery, n.listen} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan error, 1)
	go func() { opened <- n.openCluster(t.Context()) }()
	url := "http://" + n.HTTPAddr()
	for _, c := range [][2]string{{"GET", "/healthz"}, {"GET", "/readyz"}, {"PUT", "/v1/tasks/a"}, {"GET", "/v1/cluster"}} {
		code, body := request(t, c[0], url+c[1])
		var p struct{ Type, Detail string }
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err, body)
		}
		if code != 503 || !strings.Contains(p.Detail, "49MiB are free") || !strings.Contains(p.Detail, "50MiB") {
			t.Errorf("%v: %d %s", c, code, body)
		}
	}
	// It does not know yet whether calls need a key, and so tells no more than the reason.
	if code, body := request(t, "GET", url+"/metrics"); code != 503 || !strings.Contains(body, "49MiB are free") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data folder was touched: %v", err)
	}
	free.Store(200 << 20)
	if err := <-opened; err != nil || n.cluster == nil {
		t.Fatalf("not opened: %v", err)
	}
	if err := n.startHTTP(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, n).Schedule(t.Context(), client.Task{ID: "a", Delay: time.Hour}); err != nil {
		t.Error(err)
	}
}

// A start that fails stops the parts it has started: the port is free again.
func TestFailedStartStops(t *testing.T) {
	cfg := testConfig(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTPAddr = taken.Addr().String()
	before := runtime.NumGoroutine()
	var setting *SettingError
	if _, err := Start(t.Context(), cfg); !errors.As(err, &setting) || setting.Setting != "http" {
		t.Errorf("a port that is taken: %v", err)
	}
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data folder was touched: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.BootstrapExpect = 2
	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "1, 3 or 5") {
		t.Errorf("a cluster of two: %v", err)
	}
	awaitGoroutines(t, before)
	free, err := net.Listen("tcp", cfg.HTTPAddr)
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
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
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		err := cfg.Validate()
		var setting *SettingError
		if !errors.As(err, &setting) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
