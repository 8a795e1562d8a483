package backups

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Collector returns the metrics of the record. Every node has the same values.
func Collector(record func() *clusterpb.Backups) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("belfry_backup_"+name, help+" Of the scheduled backups of the whole cluster.", nil, nil)
	}
	return &collector{
		record:  record,
		running: desc("running", "1 if a node makes a backup now."),
		failing: desc("failing", "1 if the last backup failed."),
		success: desc("last_success_timestamp_seconds", "Beginning of the last backup that was kept."),
		failure: desc("last_failure_timestamp_seconds", "End of the last backup that failed."),
		bytes:   desc("last_size_bytes", "Length of the last backup that was kept."),
		seconds: desc("last_duration_seconds", "Duration of the last backup that was kept."),
	}
}

type collector struct {
	record                                             func() *clusterpb.Backups
	running, failing, success, failure, bytes, seconds *prometheus.Desc
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.running, c.failing, c.success, c.failure, c.bytes, c.seconds} {
		to <- d
	}
}

// Collect sends the metrics that have a value: none before the first backup.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	b := c.record()
	if b == nil {
		return
	}
	send := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	kept, failed := b.LastKept, b.LastFailed
	send(c.running, one(b.Running != nil))
	send(c.failing, one(isFailing(b)))
	if kept != nil {
		send(c.success, float64(kept.BegunMs)/1000)
		send(c.bytes, float64(kept.Bytes))
		send(c.seconds, float64(kept.SeenMs-kept.BegunMs)/1000)
	}
	if failed != nil {
		send(c.failure, float64(failed.SeenMs)/1000)
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
