package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestBrokersFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "brokers.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("nats://h: {user: x}\n"), 0o600))
	out, code := belfry(t, "serve", "--data", t.TempDir(), "--brokers", file)
	if code != exitSettings || !strings.Contains(out, "--brokers: "+file+": nats://h: a user without a password") {
		t.Errorf("%d\n%s", code, out)
	}
}

// begin runs a node until the context ends, and returns its HTTP address and a function that stops it.
func begin(ctx context.Context, args ...string) (addr string, stop func() error, err error) {
	root := newRoot()
	r, w := io.Pipe()
	root.SetErr(w)
	common := []string{"serve", "--http", "127.0.0.1:0", "--peer", "127.0.0.1:0", "--log-format", "json"}
	root.SetArgs(append(common, args...))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		ended <- errors.Join(err, w.CloseWithError(io.EOF))
	}()
	stop = func() error { cancel(); return <-ended }
	logs := json.NewDecoder(r)
	for {
		var line struct{ Msg, HTTP string }
		if err := logs.Decode(&line); err != nil {
			return "", nil, errors.Join(err, stop())
		}
		if line.Msg == "serving" {
			go func() { _, _ = io.Copy(io.Discard, io.MultiReader(logs.Buffered(), r)) }()
			return line.HTTP, stop, nil
		}
	}
}

// serving runs a node, and returns its HTTP address and a function that stops it.
func serving(t *testing.T, args ...string) (addr string, stop func() error) {
	t.Helper()
	addr, stop, err := begin(t.Context(), args...)
	assert.NoError(t, err)
	return addr, stop
}

// dial returns a client of a node once the node is ready.
func dial(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: []string{addr}})
	assert.NoError(t, err)
	t.Cleanup(c.Close)
	awaitNil(t, func() error { return c.Ready(t.Context()) })
	return c
}

// running runs a node until the test ends, and returns its HTTP address and a client of it.
func running(t *testing.T, args ...string) (addr string, c *client.Client) {
	t.Helper()
	addr, stop := serving(t, append([]string{"--data", filepath.Join(t.TempDir(), "data")}, args...)...)
	t.Cleanup(func() {
		assert.Equal(t, stop(), nil)
	})
	return addr, dial(t, addr)
}

// TestServeAlone runs a node through its life: on a new folder, with operations that change its shards, and again on the
// same folder. Then belfry verify judges the folder.
func TestServeAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, pidFile := filepath.Join(dir, "data"), filepath.Join(dir, "pid")
	args := []string{"--data", data, "--pid-file", pidFile, "--pprof", "127.0.0.1:0", "--shards", "4", "--name", "n1"}
	for _, want := range []error{client.ErrNotFound, nil} { // new, and again on the same folder
		addr, stop := serving(t, args...)
		c := dial(t, addr)
		_, err := c.Get(t.Context(), "kept")
		assert.ErrorIs(t, err, want)
		if _, err := c.Schedule(t.Context(), client.Task{ID: "kept", Delay: time.Hour}); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(pidFile); err != nil {
			t.Error(err)
		}
		if want != nil {
			operate(t, addr)
		}
		if out, code := belfry(t, "verify", data); code != exitFailed || !strings.Contains(out, "use") {
			t.Errorf("of a running node: %d\n%s", code, out)
		}
		assert.Equal(t, stop(), nil)
		if _, err := os.Stat(pidFile); !os.IsNotExist(err) {
			t.Errorf("the pid file is still there: %v", err)
		}
	}
	verifyFolder(t, data)
}

func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer func() { _ = taken.Close() }()
	tests := []struct {
		args string
		code int
		says string
	}{
		{"--replication 2", exitSettings, "--replication: 2 replicas: 1, 3 or 5"},
		{"--replace-after 1s", exitSettings, "--replace-after: 1s: 10s at least"},
		{"--move-rate 5%", exitSettings, `--move-rate: "5%" is no number of bytes (256MiB)`},
		{"--move-rate 1KiB", exitSettings, "--move-rate: 1KiB a second: 0 for no limit, or 64KiB at least"},
		{"--auto-split 5%", exitSettings, `--auto-split: "5%" is no number of bytes (256MiB)`},
		{"--auto-split 1KiB", exitSettings, "--auto-split: 1KiB: 0 for no automatic splits, or 1MiB at least"},
		{"--auto-split-shards 257", exitSettings, "--auto-split-shards: 257 is not within 1 to 256"},
		{"--metrics-queues 0", exitSettings, "--metrics-queues: 0 is not within 1 to 10000"},
		{"--zone rack/7", exitSettings, `--zone: "rack/7" is not 1 to 63 letters, digits`},
		{"--weight 0", exitSettings, "--weight: 0 is not within 1 to 100"},
		{"--log-level loud", exitSettings, "--log-level"},
		{"--log-format xml", exitSettings, "--log-format"},
		{"--log-store memory", exitSettings, "--log-store"},
		{"--timing slow", exitSettings, "--timing"},
		{"--memory-limit 10MiB", exitSettings, "--memory-limit"},
		{"--allow-webhook-cidr 10.0.0.0", exitSettings, "--allow-webhook-cidr"},
		{"--http " + taken.Addr().String(), exitFailed, "--http"},
		{"--pprof " + taken.Addr().String(), exitFailed, "--pprof"},
		{"--peer-cert a --peer-key b --peer-ca c", exitSettings, "--peer-cert: peer-key, peer-ca and gossip-key-file go together"},
		{"--peer-cert a --peer-key b --peer-ca c --gossip-key-file d", exitFailed, "open a: no such file"},
		{"--bootstrap-expect 2", exitFailed, "1, 3 or 5"},
		{"surplus", exitSettings, `takes no argument, and got "surplus"`},
	}
	for _, tt := range tests {
		args := append([]string{"serve", "--data", filepath.Join(t.TempDir(), "d"), "--peer", "127.0.0.1:0",
			"--http", "127.0.0.1:0"}, strings.Fields(tt.args)...)
		out, code := belfry(t, args...)
		if code != tt.code || !strings.Contains(out, tt.says) {
			t.Errorf("%s: %d, want %d and %q\n%s", tt.args, code, tt.code, tt.says, out)
		}
	}
}

// The unit starts a node again after a crash, whose status is 2, and not after wrong settings.
func TestUnitKnowsStatusOfWrongSettings(t *testing.T) {
	unit, err := os.ReadFile("../../deploy/systemd/belfry.service")
	assert.NoError(t, err)
	if want := fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exitSettings); !strings.Contains(string(unit), want) {
		t.Errorf("the unit is without %s", want)
	}
}

// Both formats show durations and errors alike.
func TestLogFormats(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		l, err := newLogger(&out, "info", format)
		assert.NoError(t, err)
		l.Info("done", "took", 1200*time.Microsecond, "err", errors.New("torn"))
		if format == "text" {
			assert.Contains(t, out.String(), "msg=done took=1.2ms err=torn", "text: %s", &out)
			continue
		}
		var record map[string]any
		if err := json.Unmarshal(out.Bytes(), &record); err != nil || record["took"] != "1.2ms" || record["err"] != "torn" {
			t.Errorf("json: %s, %v", &out, err)
		}
	}
}
