package histogram

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A histogram has its classic buckets and native ones, and few of these however its observations are spread.
func TestBothForms(t *testing.T) {
	h := prometheus.NewHistogram(Both(prometheus.HistogramOpts{
		Name: "belfry_test_seconds", Help: "For the test.", Buckets: []float64{0.001, 1},
	}))
	const observations = 100_000
	for d, i := time.Nanosecond, 0; i < observations; i++ {
		h.Observe(d.Seconds())
		if d = d*11/10 + 1; d > 24*time.Hour {
			d = time.Nanosecond
		}
	}
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	buckets := 0
	for _, span := range m.Histogram.PositiveSpan {
		buckets += int(span.GetLength())
	}
	if m.Histogram.Schema == nil || buckets == 0 || buckets > maxBuckets {
		t.Errorf("%d native buckets", buckets)
	}
	if n := m.Histogram.GetSampleCount(); n != observations || len(m.Histogram.Bucket) != 2 {
		t.Errorf("%d observations in %d classic buckets", n, len(m.Histogram.Bucket))
	}
}
