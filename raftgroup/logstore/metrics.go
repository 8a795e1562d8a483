package logstore

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/internal/histogram"
)

// metrics holds a group's metrics of its log.
type metrics struct {
	registerer prometheus.Registerer
	seconds    prometheus.Histogram
	bytes      prometheus.Counter
	disk       prometheus.GaugeFunc
}

func newMetrics(reg prometheus.Registerer, diskBytes func() (int64, error)) (*metrics, error) {
	if reg == nil {
		return nil, nil
	}
	m := &metrics{
		registerer: reg,
		seconds: prometheus.NewHistogram(histogram.Both(prometheus.HistogramOpts{
			Name:    "belfry_log_append_duration_seconds",
			Help:    "How long appends to the Raft log took, fsync included.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 9), // 50 µs to 3.3 s
		})),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_log_append_bytes_total",
			Help: "Bytes of entries appended to the Raft log.",
		}),
		disk: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "belfry_log_disk_bytes",
			Help: "Bytes that the Raft log and its votes take on disk; -1 if that cannot be found out.",
		}, func() float64 { return asGauge(diskBytes()) }),
	}
	if err := m.register(); err != nil {
		return nil, err
	}
	return m, nil
}

func asGauge(n int64, err error) float64 {
	if err != nil {
		return -1
	}
	return float64(n)
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.seconds, m.bytes, m.disk}
}

// register registers all collectors or none. A collector that is already registered belongs to another group.
func (m *metrics) register() error {
	for i, c := range m.collectors() {
		if err := m.registerer.Register(c); err != nil {
			for _, mine := range m.collectors()[:i] {
				m.registerer.Unregister(mine)
			}
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// unregister allows this process to open the same group again.
func (m *metrics) unregister() {
	for _, c := range m.collectors() {
		m.registerer.Unregister(c)
	}
}

func (m *metrics) appended(entries []*raft.Log, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	bytes := 0
	for _, e := range entries {
		bytes += len(e.Data) + len(e.Extensions) + entryOverhead
	}
	m.bytes.Add(float64(bytes))
}
