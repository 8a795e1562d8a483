package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/internal/histogram"
	"github.com/belfryhq/belfry/quota"
)

// metrics holds the metrics of one server. They also work unregistered.
type metrics struct {
	seconds  *prometheus.HistogramVec // by method, route, status
	inFlight prometheus.Gauge
	lines    *prometheus.CounterVec // by status
	chunks   prometheus.Histogram
	retries  prometheus.Counter

	overQuota *prometheus.CounterVec // by quota

	waiting   prometheus.Gauge
	leased    prometheus.Counter
	givenBack prometheus.Counter
	settles   *prometheus.CounterVec // by status

	mu    sync.RWMutex
	kinds map[callKind]prometheus.Observer // the histograms of seconds that have been used
}

// callKind is a set of labels of the duration of calls.
type callKind struct {
	method, route string
	status        int
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		kinds: map[callKind]prometheus.Observer{},
		seconds: prometheus.NewHistogramVec(histogram.Both(prometheus.HistogramOpts{
			Name:    "belfry_http_request_duration_seconds",
			Help:    "Duration of HTTP calls, by route; of a stream, all of it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}), []string{"method", "route", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_http_requests_in_flight", Help: "HTTP calls under way, batches included.",
		}),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_http_batch_lines_total", Help: "Batch lines answered, by status.",
		}, []string{"status"}),
		chunks: prometheus.NewHistogram(histogram.Both(prometheus.HistogramOpts{
			Name: "belfry_http_batch_commit_lines", Help: "Batch lines in one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		})),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_http_batch_retries_total", Help: "Batch commits tried again because shards were overloaded.",
		}),
		overQuota: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_quota_refusals_total", Help: "Calls and batch lines refused at this node, by quota.",
		}, []string{"quota"}),

		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_http_consumers_waiting", Help: "Consumers at this node that wait for a task, or have a stream.",
		}),
		leased: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_http_leased_tasks_total", Help: "Tasks handed to consumers.",
		}),
		givenBack: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_http_given_back_tasks_total", Help: "Tasks released because their consumer was gone.",
		}),
		settles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_http_settled_receipts_total", Help: "Receipts settled or extended, by status.",
		}, []string{"status"}),
	}
	for q := quota.MaxPending; q <= quota.MaxQueues; q++ {
		m.overQuota.WithLabelValues(q.String())
	}
	return m, m.register(r)
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.seconds, m.inFlight, m.lines, m.chunks, m.retries,
		m.overQuota, m.waiting, m.leased, m.givenBack, m.settles} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) called(kind callKind, took time.Duration) {
	m.mu.RLock()
	o := m.kinds[kind]
	m.mu.RUnlock()
	if o == nil { // finding it by its labels takes several times as long
		o = m.seconds.WithLabelValues(kind.method, kind.route, strconv.Itoa(kind.status))
		m.mu.Lock()
		m.kinds[kind] = o
		m.mu.Unlock()
	}
	o.Observe(took.Seconds())
}

// methodLabel returns the label of a method. Unusual methods share one label, so that callers cannot create any number
// of values.
func methodLabel(method string) string {
	switch method {
	case "GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

func (m *metrics) committed(lines int) {
	if lines > 0 {
		m.chunks.Observe(float64(lines))
	}
}

// refused counts a refusal by a quota, and no other problem.
func (m *metrics) refused(p *problem) {
	if p.quota != "" {
		m.overQuota.WithLabelValues(p.quota).Inc()
	}
}

func (m *metrics) line(status, n int) { m.lines.WithLabelValues(strconv.Itoa(status)).Add(float64(n)) }

func (m *metrics) settled(refused *problem) {
	status := http.StatusOK
	if refused != nil {
		status = refused.status
	}
	m.settles.WithLabelValues(strconv.Itoa(status)).Inc()
}

// observe times every call. Unknown paths share one route.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		begin := time.Now()
		err := next(c)
		if err != nil {
			c.Error(err) // here, so that the status is known
		}
		route := shortRoute(c.Path())
		if route == "" {
			route = "none"
		}
		s.metrics.called(callKind{methodLabel(c.Request().Method), route, c.Response().Status}, time.Since(begin))
		return nil
	}
}
