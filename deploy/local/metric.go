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

// Metric adds up what a node's metrics say in lines that begin so: one metric's, with "{" and labels if need be.
func (n Node) Metric(ctx context.Context, prefix string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, metricLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTPAddr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s tells no metrics: %s", n.Name, resp.Status)
	}
	total := 0.0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
			if err != nil {
				return 0, fmt.Errorf("%s of %s: %w", prefix, n.Name, err)
			}
			total += v
		}
	}
	return total, lines.Err()
}
