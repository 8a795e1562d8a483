package gossip

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/internal/assert"
)

// Twenty thousand junk packets in a second are a handful of lines, with a gossip key and without, and each counts in the
// metric.
func TestJunkPacketsAreFewLines(t *testing.T) {
	for name, key := range map[string][]byte{"key": make([]byte, 32), "no key": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sendJunk(t, key) })
		})
	}
}

func sendJunk(t *testing.T, key []byte) {
	metrics, log := prometheus.NewRegistry(), new(assert.Log)
	logger := slog.New(slog.NewTextHandler(log, nil))
	m := newMesh(t)
	e, err := peer.Listen(peer.Config{
		NodeID: fmt.Sprintf("%016s", "a"), BindAddr: "127.0.0.1:0", Network: m.network, Registerer: metrics, Logger: logger,
	})
	assert.NoError(t, err)
	g, err := Start(Config{
		Self:      &clusterpb.GossipMeta{Id: "a", Boot: 1, ClusterId: clusterID, PeerAddr: e.Addr(), Name: "a"},
		Transport: e.Gossip(), Keys: keysOf(key), Directory: seeds(nil), Leaders: deaf{},
		Logger: logger,
	})
	assert.NoError(t, err)
	_, conn, err := m.network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	to, err := net.ResolveUDPAddr("udp", e.Addr())
	assert.NoError(t, err)
	const junk, atOnce, most = 20_000, 100, 12
	label := []byte("\xf4\x08belfry-1")
	for i := range junk {
		said := fmt.Appendf(nil, "%c%d junk", i%256, i)
		if i%2 == 0 {
			said = append(label[:len(label):len(label)], said...)
		}
		_, err := conn.WriteTo(said, to)
		assert.NoError(t, err)
		if i%atOnce == 0 {
			time.Sleep(time.Second * atOnce / junk) // of the bubble's clock
		}
	}
	synctest.Wait()
	assert.Equal(t, counted(t, metrics), junk, "packets are counted")
	if strings.Count(log.String(), "\n") == 0 {
		t.Error("no line is written")
	}
	if n := strings.Count(log.String(), "\n"); n > most {
		t.Errorf("%d lines, at most %d are wanted:\n%.3000s", n, most, log)
	}
	_ = g.Close() // no member is left to hear the goodbye
	for _, end := range []func() error{conn.Close, e.Close} {
		assert.Equal(t, end(), nil)
	}
}

// counted returns the number of packets that the port has counted.
func counted(t *testing.T, metrics *prometheus.Registry) float64 {
	t.Helper()
	families, err := metrics.Gather()
	assert.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "belfry_peer_packets_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("packets are not counted")
	return 0
}
