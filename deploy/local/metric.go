package local

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/deploy/procstat"
)

// metricLimit is the time limit of reading a node's metrics.
const metricLimit = 5 * time.Second

// Metric returns the sum of a metric's samples that have all of the given labels, 0 if the node has none.
func (n Node) Metric(ctx context.Context, name string, labels ...procstat.Label) (float64, error) {
	samples, err := n.Samples(ctx, name, labels...)
	total := 0.0
	for _, v := range samples {
		total += v
	}
	return total, err
}

// Samples returns the values of a metric's samples. See [procstat.Metrics.Values].
func (n Node) Samples(ctx context.Context, name string, labels ...procstat.Label) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, metricLimit)
	defer cancel()
	metrics, err := procstat.Fetch(ctx, http.DefaultClient, n.HTTPAddr, n.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	return metrics.Values(name, labels...), nil
}
