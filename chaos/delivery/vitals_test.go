package delivery_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

// vitals are what one process takes from the machine.
type vitals struct {
	memory int64 // resident bytes
	files  int   // open descriptors
}

// readVitals reads them from Linux's /proc.
func readVitals(pid int) (vitals, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return vitals{}, err
	}
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		return vitals{}, err
	}
	memory, err := resident(status)
	return vitals{memory, len(files)}, err
}

// resident finds the line "VmRSS:   12345 kB".
func resident(status []byte) (int64, error) {
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == "VmRSS:" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in %q", status)
}

// monitor keeps the nodes' highest vitals.
type monitor struct {
	before, peak map[string]vitals
	stop         chan struct{}
	done         sync.WaitGroup
}

const lookEvery = 100 * time.Millisecond

// watchVitals looks at every node that runs, all the time until held. Elsewhere than on Linux it sees nothing.
func watchVitals(cluster *local.Cluster) *monitor {
	m := &monitor{before: map[string]vitals{}, peak: map[string]vitals{}, stop: make(chan struct{})}
	m.look(cluster)
	for name, v := range m.peak {
		m.before[name] = v
	}
	m.done.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-ticker.C:
				m.look(cluster)
			}
		}
	})
	return m
}

func (m *monitor) look(cluster *local.Cluster) {
	for _, n := range cluster.Nodes() {
		if n.PID == 0 {
			continue
		}
		v, err := readVitals(n.PID)
		if err != nil {
			continue // it has just ended, or this system does not tell
		}
		high := m.peak[n.Name]
		m.peak[n.Name] = vitals{max(high.memory, v.memory), max(high.files, v.files)}
	}
}

// hold ends the watch and fails the test for a node that grew by more than it may.
func (m *monitor) hold(t testing.TB, may vitals) {
	t.Helper()
	close(m.stop)
	m.done.Wait()
	if len(m.peak) == 0 && runtime.GOOS == "linux" {
		t.Error("no node's vitals were seen")
	}
	for name, high := range m.peak {
		low := m.before[name]
		t.Logf("%s: memory %d to %d MiB, descriptors %d to %d", name,
			low.memory>>20, high.memory>>20, low.files, high.files)
	}
	for _, excess := range excesses(m.before, m.peak, may) {
		t.Error(excess)
	}
}

func excesses(before, peak map[string]vitals, may vitals) (found []string) {
	for name, high := range peak {
		low := before[name]
		if grown := high.memory - low.memory; grown > may.memory {
			found = append(found, fmt.Sprintf("%s grew by %d MiB: allowed are %d", name, grown>>20, may.memory>>20))
		}
		if opened := high.files - low.files; opened > may.files {
			found = append(found, fmt.Sprintf("%s opened %d descriptors: allowed are %d", name, opened, may.files))
		}
	}
	slices.Sort(found)
	return found
}

func TestVitals(t *testing.T) {
	if got, err := resident([]byte("Name:\tbelfry\nVmRSS:\t   2048 kB\nThreads:\t9\n")); got != 2<<20 || err != nil {
		t.Errorf("%d bytes, %v", got, err)
	}
	if _, err := resident([]byte("Name:\tbelfry\n")); err == nil {
		t.Error("memory out of nothing")
	}
	before := map[string]vitals{"n": {100, 10}}
	if found := excesses(before, map[string]vitals{"n": {200, 20}}, vitals{100, 10}); len(found) > 0 {
		t.Errorf("found %q in what is allowed", found)
	}
	if found := excesses(before, map[string]vitals{"n": {201, 21}}, vitals{100, 10}); len(found) != 2 {
		t.Errorf("found %q in what is not allowed", found)
	}
	if runtime.GOOS != "linux" {
		return
	}
	own, err := readVitals(os.Getpid())
	if err != nil || own.memory < 1<<20 || own.files < 3 {
		t.Errorf("this process: %+v, %v", own, err)
	}
}
