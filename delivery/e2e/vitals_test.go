package e2e_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/procstat"
)

// monitor keeps the nodes' highest memory and descriptor counts.
type monitor struct {
	before, peak map[string]procstat.Usage
	stop         chan struct{}
	done         sync.WaitGroup
}

const lookEvery = 100 * time.Millisecond

// watchVitals polls every running node until hold. On systems other than Linux it sees nothing. Without processes it
// returns nil, which sees nothing either.
func watchVitals(cluster *local.Cluster) *monitor {
	if cluster == nil {
		return nil
	}
	m := &monitor{before: map[string]procstat.Usage{}, peak: map[string]procstat.Usage{}, stop: make(chan struct{})}
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
		v, err := procstat.Of(n.PID)
		if err != nil {
			continue // it has just ended, or this system has no such data
		}
		high := m.peak[n.Name]
		m.peak[n.Name] = procstat.Usage{
			Memory: max(high.Memory, v.Memory), Descriptors: max(high.Descriptors, v.Descriptors),
		}
	}
}

// hold ends the watch, and fails the test for each node that grew by more than may.
func (m *monitor) hold(t testing.TB, may procstat.Usage) {
	t.Helper()
	if m == nil {
		return
	}
	close(m.stop)
	m.done.Wait()
	if len(m.peak) == 0 && runtime.GOOS == "linux" {
		t.Error("no node's vitals were seen")
	}
	for name, high := range m.peak {
		low := m.before[name]
		t.Logf("%s: memory %d to %d MiB, descriptors %d to %d", name,
			low.Memory>>20, high.Memory>>20, low.Descriptors, high.Descriptors)
	}
	for _, excess := range excesses(m.before, m.peak, may) {
		t.Error(excess)
	}
}

func excesses(before, peak map[string]procstat.Usage, may procstat.Usage) (found []string) {
	for name, high := range peak {
		low := before[name]
		if grown := high.Memory - low.Memory; grown > may.Memory {
			found = append(found, fmt.Sprintf("%s grew by %d MiB: allowed are %d", name, grown>>20, may.Memory>>20))
		}
		if opened := high.Descriptors - low.Descriptors; opened > may.Descriptors {
			found = append(found, fmt.Sprintf("%s opened %d descriptors: allowed are %d", name, opened, may.Descriptors))
		}
	}
	slices.Sort(found)
	return found
}

func TestExcesses(t *testing.T) {
	before, may := map[string]procstat.Usage{"n": {Memory: 100, Descriptors: 10}}, procstat.Usage{Memory: 100, Descriptors: 10}
	if found := excesses(before, map[string]procstat.Usage{"n": {Memory: 200, Descriptors: 20}}, may); len(found) > 0 {
		t.Errorf("found %q in allowed usage", found)
	}
	if found := excesses(before, map[string]procstat.Usage{"n": {Memory: 201, Descriptors: 21}}, may); len(found) != 2 {
		t.Errorf("found %q in excessive usage", found)
	}
}
