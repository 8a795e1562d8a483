package memory

import "github.com/prometheus/client_golang/prometheus"

func (w *Watch) collectors() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		opts := prometheus.GaugeOpts{Namespace: "belfry", Subsystem: "memory", Name: name, Help: help}
		return prometheus.NewGaugeFunc(opts, func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return read()
		})
	}
	return []prometheus.Collector{
		gauge("limit_bytes", "Memory that the node may use; 0: no limit.", func() float64 { return float64(w.cfg.Limit) }),
		gauge("used_bytes", "Memory in use, and what the tasks in it may come to use as they come due. From three quarters "+
			"of the limit on, no more tasks are taken.", func() float64 { return float64(w.used) }),
		gauge("held_bytes", "Memory in use, and the part of it that is free for further tasks.",
			func() float64 { return float64(w.held) }),
		gauge("full", "1 while no more tasks are taken.", func() float64 {
			if w.full != "" {
				return 1
			}
			return 0
		}),
	}
}
