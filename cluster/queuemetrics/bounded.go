package queuemetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Patience is how long a scrape waits for the counts of a node.
const Patience = time.Second

// Bounded returns a collector of the metrics of c that waits for c no longer than patience. After that it sends the
// metrics that c sent the last time, and none if there was no time before. Meanwhile c goes on, and is not asked again
// before it has ended. c must send metrics whose values do not change.
func Bounded(c prometheus.Collector, patience time.Duration) prometheus.Collector {
	return &bounded{Collector: c, patience: patience}
}

type bounded struct {
	prometheus.Collector
	patience time.Duration

	mu      sync.Mutex
	running chan struct{}       // closed when the collector has ended; nil: it is not running
	last    []prometheus.Metric // of the collector's last end
}

// Collect sends the metrics.
func (b *bounded) Collect(out chan<- prometheus.Metric) {
	timeout := time.NewTimer(b.patience)
	defer timeout.Stop()
	select {
	case <-b.begin():
	case <-timeout.C:
	}
	b.mu.Lock()
	metrics := b.last
	b.mu.Unlock()
	for _, m := range metrics {
		out <- m
	}
}

// begin starts the collector unless it is running, and returns a channel that is closed at its end.
func (b *bounded) begin() (ended <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		b.running = make(chan struct{})
		go b.run(b.running)
	}
	return b.running
}

func (b *bounded) run(ended chan<- struct{}) {
	metrics := all(b.Collector)
	b.mu.Lock()
	b.last, b.running = metrics, nil
	b.mu.Unlock()
	close(ended)
}

// all returns the metrics of a collector.
func all(c prometheus.Collector) (metrics []prometheus.Metric) {
	out := make(chan prometheus.Metric)
	go func() {
		defer close(out)
		c.Collect(out)
	}()
	for m := range out {
		metrics = append(metrics, m)
	}
	return metrics
}
