package disk

import "github.com/prometheus/client_golang/prometheus"

func (w *Watch) collectors() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		opts := prometheus.GaugeOpts{Namespace: "belfry", Subsystem: "disk", Name: name, Help: help}
		return prometheus.NewGaugeFunc(opts, func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return read()
		})
	}
	return []prometheus.Collector{
		gauge("free_bytes", "Room on the disk of the data folder, when last told.",
			func() float64 { return float64(w.space.Free) }),
		gauge("reserve_bytes", "With less room than this the node gives its leaderships away.",
			func() float64 { return float64(w.cfg.Reserve.Of(w.space.Total)) }),
		gauge("low", "1 while there is less.", func() float64 {
			if w.low {
				return 1
			}
			return 0
		}),
	}
}
