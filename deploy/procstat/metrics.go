package procstat

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the metrics of a node by name.
type Metrics map[string]*dto.MetricFamily

// Fetch reads the metrics of the node at addr, host:port, with the API key in a file. keyFile is empty if calls need no
// key.
func Fetch(ctx context.Context, c *http.Client, addr, keyFile string) (Metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	if keyFile != "" {
		key, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the body was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %s", addr, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	m, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", addr, err)
	}
	return m, nil
}

// Label is a label of a sample.
type Label struct{ Name, Value string }

// Values returns the value of each sample of a metric that has all of the given labels. The number of observations of a
// histogram or summary h is h_count. Values returns nil if the node has no such metric.
func (m Metrics) Values(name string, labels ...Label) []float64 {
	var values []float64
	for _, s := range m[name].GetMetric() {
		switch {
		case !hasAll(s, labels):
		case s.Gauge != nil:
			values = append(values, s.Gauge.GetValue())
		case s.Counter != nil:
			values = append(values, s.Counter.GetValue())
		case s.Untyped != nil:
			values = append(values, s.Untyped.GetValue())
		}
	}
	if base, ok := strings.CutSuffix(name, "_count"); ok {
		values = append(values, m.counts(base, labels)...)
	}
	return values
}

func hasAll(s *dto.Metric, labels []Label) bool {
	for _, want := range labels {
		if !slices.ContainsFunc(s.Label, func(l *dto.LabelPair) bool {
			return l.GetName() == want.Name && l.GetValue() == want.Value
		}) {
			return false
		}
	}
	return true
}

func (m Metrics) counts(name string, labels []Label) []float64 {
	var counts []float64
	for _, s := range m[name].GetMetric() {
		switch {
		case !hasAll(s, labels):
		case s.Histogram != nil:
			counts = append(counts, float64(s.Histogram.GetSampleCount()))
		case s.Summary != nil:
			counts = append(counts, float64(s.Summary.GetSampleCount()))
		}
	}
	return counts
}
