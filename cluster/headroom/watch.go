package headroom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watch calls look at intervals until the context ends, and changed after each look that returns true.
func watch(ctx context.Context, every time.Duration, look func() bool, changed func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if look() {
				changed()
			}
		case <-ctx.Done():
			return
		}
	}
}

// gauges returns a function that makes the gauges of a subsystem, which are read under a lock.
func gauges(subsystem string, mu *sync.Mutex) func(name, help string, read func() float64) prometheus.Collector {
	return func(name, help string, read func() float64) prometheus.Collector {
		opts := prometheus.GaugeOpts{Namespace: "belfry", Subsystem: subsystem, Name: name, Help: help}
		return prometheus.NewGaugeFunc(opts, func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return read()
		})
	}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
