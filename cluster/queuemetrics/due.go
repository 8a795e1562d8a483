package queuemetrics

import "github.com/prometheus/client_golang/prometheus"

// spans are the values of the label "within" of belfry_due_tasks: the spans of an fsmpb.Outlook.
var spans = []string{"1s", "10s", "1m", "10m", "1h"}

var dueDesc = prometheus.NewDesc("belfry_due_tasks",
	"Tasks that wait for a time within the span from now, overdue ones included, in the shards led here.",
	[]string{"within"}, nil)

// Due returns a collector of the tasks that come due soon, in all queues together.
func Due(source Source) prometheus.Collector { return due{source} }

type due struct{ source Source }

// Describe sends the description of the metric.
func (due) Describe(out chan<- *prometheus.Desc) { out <- dueDesc }

// Collect counts the tasks and sends the metric.
func (d due) Collect(out chan<- prometheus.Metric) {
	counts := d.source.Due()
	for i, span := range spans {
		var n uint64
		if i < len(counts) {
			n = counts[i]
		}
		out <- prometheus.MustNewConstMetric(dueDesc, prometheus.GaugeValue, float64(n), span)
	}
}
