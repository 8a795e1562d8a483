package peerkeys

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Fingerprint returns the first eight bytes of the SHA-256 hash of a certificate or a gossip key, in hexadecimal.
func Fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// metrics shows the present keys.
type metrics struct {
	keys    *Keys
	changes *prometheus.CounterVec
}

func newMetrics(k *Keys) *metrics {
	m := &metrics{keys: k, changes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "belfry_peer_key_changes_total",
		Help: "Times that new contents of the files were taken into use, by kind: certificate or gossip.",
	}, []string{"kind"})}
	for _, kind := range []string{"certificate", "gossip"} {
		m.changes.WithLabelValues(kind)
	}
	if r := k.cfg.Registerer; r != nil {
		r.MustRegister(m.changes, m)
	}
	return m
}

func (m *metrics) taken(kind string) { m.changes.WithLabelValues(kind).Inc() }

var (
	expiryDesc = prometheus.NewDesc("belfry_certificate_expiry_timestamp_seconds",
		"Unix time at which the certificate between nodes ends: this node's, and that of its authority.",
		[]string{"certificate"}, nil)
	refusedDesc = prometheus.NewDesc("belfry_peer_key_files_refused",
		"1 while the files are faulty and their earlier contents stay in use, by kind: certificate or gossip.",
		[]string{"kind"}, nil)
	loadedDesc = prometheus.NewDesc("belfry_peer_key_info",
		"1 for each certificate and gossip key in use, by kind (node, authority or gossip), place in its file and "+
			"fingerprint.",
		[]string{"kind", "place", "fingerprint"}, nil)
)

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- expiryDesc
	to <- refusedDesc
	to <- loadedDesc
}

// Collect is part of prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	c := m.keys.Credentials()
	end := func(cert *x509.Certificate) float64 { return float64(cert.NotAfter.Unix()) }
	gauge(expiryDesc, end(c.Cert.Leaf), "node")
	gauge(expiryDesc, end(c.authority()), "authority")
	gauge(refusedDesc, number(m.keys.credentials.Refused()), "certificate")
	gauge(refusedDesc, number(m.keys.gossip.Refused()), "gossip")
	gauge(loadedDesc, 1, "node", "1", Fingerprint(c.Cert.Leaf.Raw))
	for i, a := range c.authorities {
		gauge(loadedDesc, 1, "authority", strconv.Itoa(i+1), Fingerprint(a.Raw))
	}
	for i, key := range m.keys.Gossip() {
		gauge(loadedDesc, 1, "gossip", strconv.Itoa(i+1), Fingerprint(key))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
