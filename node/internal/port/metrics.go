package port

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/peerkeys"
)

// The kinds of files in metrics.
const (
	serverKind  = "certificate"
	callersKind = "client_ca"
)

// metrics shows the present certificates.
type metrics struct {
	of      *Certificates
	changes *prometheus.CounterVec
}

func newMetrics(c *Certificates) *metrics {
	m := &metrics{of: c, changes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belfry_http_certificate_changes_total",
		Help: "Times that new contents of the API's files were taken into use, by kind: certificate or client_ca.",
	}, []string{"kind"})}
	m.changes.WithLabelValues(serverKind)
	m.changes.WithLabelValues(callersKind)
	if r := c.cfg.Registerer; r != nil {
		r.MustRegister(m.changes, m)
	}
	return m
}

var (
	expiryDesc = prometheus.NewDesc("belfry_http_certificate_expiry_timestamp_seconds",
		"Unix time at which the API's certificate ends, or the first authority of callers that ends, by kind: "+
			"certificate or client_ca.", []string{"kind"}, nil)
	refusedDesc = prometheus.NewDesc("belfry_http_certificate_files_refused",
		"1 while the API's files are faulty and their earlier contents stay in use, by kind: certificate or client_ca.",
		[]string{"kind"}, nil)
	infoDesc = prometheus.NewDesc("belfry_http_certificate_info",
		"1 for each certificate of the API in use, by kind (certificate or client_ca), place in its file and fingerprint.",
		[]string{"kind", "place", "fingerprint"}, nil)
)

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- expiryDesc
	to <- refusedDesc
	to <- infoDesc
}

// Collect is part of prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	c := m.of
	gauge(expiryDesc, float64(c.Ends().Unix()), serverKind)
	gauge(refusedDesc, number(c.server.Refused()), serverKind)
	gauge(infoDesc, 1, serverKind, "1", peerkeys.Fingerprint(c.server.Get().Leaf.Raw))
	if c.cfg.ClientCA == "" {
		return
	}
	gauge(refusedDesc, number(c.authorities.Refused()), callersKind)
	authorities := c.authorities.Get()
	first := authorities[0].NotAfter
	for i, a := range authorities {
		if a.NotAfter.Before(first) {
			first = a.NotAfter
		}
		gauge(infoDesc, 1, callersKind, strconv.Itoa(i+1), peerkeys.Fingerprint(a.Raw))
	}
	gauge(expiryDesc, float64(first.Unix()), callersKind)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
