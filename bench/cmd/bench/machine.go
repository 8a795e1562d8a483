package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/bench/report"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// machine describes this machine and the disk that holds dir. Unavailable facts are reported as unknown.
func machine(ctx context.Context, dir string) (report.Machine, error) {
	fsync, err := fsyncCost(dir)
	if err != nil {
		return report.Machine{}, err
	}
	rate, err := echoRate(ctx)
	return report.Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), MemoryMB: memoryMB(), OS: system(), Go: runtime.Version(),
		FileSystem: fileSystem(dir), Fsync: fsync, Echo: rate,
	}, err
}

const unknown = "unknown"

func cpuModel() string {
	if model := procField("/proc/cpuinfo", "model name"); model != "" {
		return model
	}
	return runtime.GOARCH
}

func memoryMB() int64 {
	kB, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kB << 10 / 1e6
}

// procField returns the first value of a name in a file of /proc; "" if there is none.
func procField(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func system() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return runtime.GOOS + " " + strings.TrimSpace(string(release))
}

// fileSystem returns the type of the file system that holds a folder.
func fileSystem(dir string) string {
	out, err := exec.Command("df", "-PT", dir).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) < 2 {
		return unknown
	}
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 2 {
		return unknown
	}
	if fields[1] == "tmpfs" || fields[1] == "ramfs" {
		return fields[1] + " (MEMORY: an fsync costs nothing there)"
	}
	return fields[1]
}

// fsyncCost returns the median cost of appending 4 KiB to a file and syncing it.
func fsyncCost(dir string) (cost time.Duration, err error) {
	const tries = 200
	path := filepath.Join(dir, "fsync")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	page := make([]byte, 4<<10)
	costs := make([]time.Duration, tries)
	for i := range costs {
		began := time.Now()
		if _, err := file.Write(page); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		costs[i] = time.Since(began)
	}
	slices.Sort(costs)
	return costs[tries/2], nil
}

// commit returns the hash of the checked-out commit, with the suffix -dirty if Go code has changed. Results that the
// bench writes into the tree do not count as changes.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return unknown
	}
	hash := strings.TrimSpace(string(out))
	out, err = exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":(top)*.go", ":(top)*go.mod").Output()
	if err != nil || len(out) > 0 {
		return hash + "-dirty"
	}
	return hash
}

const (
	echoCallers = 64
	echoFor     = 2 * time.Second
)

// echoRate returns how many requests a second a handler answers that only decodes and encodes a task. That is the upper
// bound for single calls on this machine, which also runs the callers.
func echoRate(ctx context.Context) (rate float64, err error) {
	url, stop, err := subject.Serve(ctx, http.HandlerFunc(echo))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	transport := &http.Transport{MaxIdleConnsPerHost: echoCallers}
	defer transport.CloseIdleConnections()
	d, err := loop.Closed(ctx, make([]struct{}, echoCallers), loop.AnyNumber, echoFor,
		func(ctx context.Context, _ struct{}, _ int) error { return callEcho(ctx, transport, url) })
	return float64(d.Done) / d.Elapsed.Seconds(), err
}

// echoTask is as large as a task of the workloads.
var echoTask = `{"fire_at":"2026-11-22T10:00:00.123Z","payload":"` + strings.Repeat("x", 198) + `"}`

func callEcho(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(echoTask))
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func echo(w http.ResponseWriter, r *http.Request) {
	var task struct {
		FireAt  time.Time `json:"fire_at"`
		Payload string    `json:"payload"`
	}
	if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// A write error is ignored: it means that the caller has gone.
	_ = json.NewEncoder(w).Encode(task)
}
