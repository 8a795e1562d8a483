package local

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metricLimit is how long a node may take to tell its metrics.
const metricLimit = 5 * time.Second

// Metric adds up what Samples returns.
func (n Node) Metric(ctx context.Context, prefix string) (float64, error) {
	samples, err := n.Samples(ctx, prefix)
	total := 0.0
	for _, v := range samples {
		total += v
	}
	return total, err
}

// Samples is what a node's metrics say in lines that begin so: one metric's, with "{" and labels if need be.
func (n Node) Samples(ctx context.Context, prefix string) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, metricLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTPAddr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s tells no metrics: %s", n.Name, resp.Status)
	}
	var samples []float64
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", prefix, n.Name, err)
			}
			samples = append(samples, v)
		}
	}
	return samples, lines.Err()
}
