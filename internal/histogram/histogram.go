// Package histogram makes the histograms of all packages alike, so that a scraper may choose between two forms:
//
//	classic   the buckets that the caller names. Every Prometheus reads them, and tests and dashboards may rely on them
//	native    buckets that follow each other by a tenth, as many as the observations need, and maxBuckets at most. They
//	          answer all quantiles. Prometheus reads them from version 3.8 on, and asks for them if it is told to
//
// A page in the text format has the classic form alone.
package histogram

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	growth     = 1.1 // of one native bucket to the next, at most
	maxBuckets = 100 // native buckets of one series: about 25 KB
	// oldest is the age from which the native buckets of a series that has too many are emptied. A younger series gets
	// wider buckets.
	oldest = time.Hour
)

// Both returns the options of a histogram with the classic buckets of o, and native ones beside them.
func Both(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.NativeHistogramBucketFactor = growth
	o.NativeHistogramMaxBucketNumber = maxBuckets
	o.NativeHistogramMinResetDuration = oldest
	return o
}
