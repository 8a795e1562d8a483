package router

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	local, hops, retries prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		local: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_router_local_total", Help: "Calls given to a shard on this node.",
		}),
		hops: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_router_hops_total", Help: "Calls given to another node.",
		}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_router_retries_total", Help: "Calls that had to be tried again, mostly for want of a leader.",
		}),
	}
	if r != nil {
		r.MustRegister(m.local, m.hops, m.retries)
	}
	return m
}
