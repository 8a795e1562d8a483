package gossip

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/peer"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) lines() int { return bytes.Count([]byte(b.String()), []byte("\n")) }

// Twenty thousand junk packets are a handful of lines, with a gossip key and without, and each counts in the metric.
func TestJunkPacketsAreFewLines(t *testing.T) {
	for name, key := range map[string][]byte{"key": make([]byte, 32), "no key": nil} {
		t.Run(name, func(t *testing.T) { sendJunk(t, key) })
	}
}

func sendJunk(t *testing.T, key []byte) {
	metrics, log := prometheus.NewRegistry(), new(lockedBuffer)
	logger := slog.New(slog.NewTextHandler(log, nil))
	e, err := peer.Listen(peer.Config{
		NodeID: fmt.Sprintf("%016s", "a"), BindAddr: "127.0.0.1:0", Registerer: metrics, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := Start(Config{
		Self:      &clusterpb.GossipMeta{Id: "a", Boot: 1, ClusterId: clusterID, PeerAddr: e.Addr(), Name: "a"},
		Transport: e.Gossip(), Keys: keysOf(key), Join: func() []string { return nil },
		Hints: func() []*clusterpb.LeaderHint { return nil }, OnHint: func(*clusterpb.LeaderHint) bool { return false },
		Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp", e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	const junk, most = 20_000, 12
	label := []byte("\xf4\x08belfry-1")
	for i := range junk {
		said := fmt.Appendf(nil, "%c%d junk", i%256, i)
		if i%2 == 0 {
			said = append(label[:len(label):len(label)], said...)
		}
		if _, err := conn.Write(said); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 { // no faster than the node reads them, so that few are lost
			until(t, "the packets arrive", func() bool { return counted(t, metrics) >= float64(i)*9/10 })
		}
	}
	until(t, "a line is written", func() bool { return log.lines() > 0 })
	if n := log.lines(); n > most {
		t.Errorf("%d lines, at most %d are wanted:\n%.3000s", n, most, log)
	}
	_ = g.Close() // no member is left to hear the goodbye
	for _, end := range []func() error{conn.Close, e.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// counted returns the number of packets that the port has counted.
func counted(t *testing.T, metrics *prometheus.Registry) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "belfry_peer_packets_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("packets are not counted")
	return 0
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll, timeout := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-timeout:
			t.Fatalf("never: %s", what)
		}
	}
}
