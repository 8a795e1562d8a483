package vitals

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/deploy/local"
)

// Usage is what a process takes from its machine, as the kernel tells.
type Usage struct {
	Memory      int64 // resident bytes
	Descriptors int
	Threads     int
	Processor   float64 // seconds since it started
}

// ticksPerSecond of /proc/PID/stat is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// Of reads the usage of a process from Linux's /proc.
func Of(pid int) (Usage, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return Usage{}, err
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return Usage{}, err
	}
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		return Usage{}, err
	}
	rss, err := field(status, "VmRSS:")
	if err != nil {
		return Usage{}, err
	}
	threads, err := field(status, "Threads:")
	if err != nil {
		return Usage{}, err
	}
	seconds, err := processorTime(stat)
	return Usage{Memory: rss << 10, Descriptors: len(files), Threads: int(threads), Processor: seconds}, err
}

// field finds a line such as "VmRSS:   12345 kB".
func field(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		if words := bytes.Fields(line); len(words) >= 2 && string(words[0]) == name {
			return strconv.ParseInt(string(words[1]), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in %q", name, status)
}

// processorTime adds user and system time, the 14th and 15th field of stat; the second one, the program's name in
// parentheses, may hold anything.
func processorTime(stat []byte) (float64, error) {
	end := bytes.LastIndexByte(stat, ')')
	words := bytes.Fields(stat[end+1:])
	if end < 0 || len(words) < 13 {
		return 0, fmt.Errorf("no times in %q", stat)
	}
	user, err := strconv.ParseInt(string(words[11]), 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(string(words[12]), 10, 64)
	return float64(user+system) / ticksPerSecond, err
}

// told reads what a node says of itself in its metrics.
func told(ctx context.Context, c *http.Client, n local.Node) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTPAddr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "go_goroutines", "go_memstats_heap_inuse_bytes":
			if found[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// logFile is where a node's output goes, which whoever started it put beside its data.
const logFile = "belfry.log"

// size is how many bytes the files of a node's data take from the disk. Files that go away meanwhile are left out.
func size(folder string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || path == filepath.Join(folder, logFile) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
