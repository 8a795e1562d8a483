package shard

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/histogram"
)

// metrics holds one shard's metrics. All exist even without a registry, so that callers need no check.
type metrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector

	entries       prometheus.Counter
	commands      prometheus.Counter
	entryBytes    prometheus.Counter
	commitSeconds prometheus.Histogram
	refused       prometheus.Counter
	noRoom        prometheus.Counter
	noMemory      prometheus.Counter
	lateness      prometheus.Histogram
	attempts      *prometheus.CounterVec
	takeovers     prometheus.Counter
	reclaimed     prometheus.Counter
	clockPauses   prometheus.Counter
	snapshots     prometheus.Histogram
	broken        prometheus.Gauge
}

func newMetrics(s *Shard, registerer prometheus.Registerer) *metrics {
	m := &metrics{
		entries:    counter("entries_total", "Log entries that this node proposed as leader and saw committed."),
		commands:   counter("commands_total", "Commands in those entries."),
		entryBytes: counter("entry_bytes_total", "Bytes in those entries."),
		commitSeconds: newHistogram("commit_duration_seconds", "From an entry's proposal until it was applied here.",
			prometheus.ExponentialBuckets(0.0001, 2, 15)),
		refused: counter("refused_total", "Calls refused because too much waited already."),
		noRoom:  counter("no_room_total", "Commands refused because the replicas' disks are nearly full."),
		noMemory: counter("no_memory_total",
			"Commands refused because a replica's node holds as many tasks as its memory allows."),
		lateness: newHistogram("start_lateness_seconds", "From a task's due time to the start of its attempt.",
			prometheus.ExponentialBuckets(0.0001, 2, 18)),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "belfry", Subsystem: "shard", Name: "attempts_total",
			Help: "Attempts that ended on this node, by verdict.",
		}, []string{"verdict"}),
		takeovers: counter("takeovers_total", "Leaderships that this node began."),
		reclaimed: counter("reclaimed_total",
			"Tasks that a leader before had leased, that did not arrive, and that this one gave back."),
		clockPauses: counter("clock_pauses_total", "Times that firing paused because the clock jumped ahead."),
		broken: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "belfry", Subsystem: "shard", Name: "broken_lanes",
			Help: "Receivers that fail so steadily that they get one probing attempt at a time from this leader.",
		}),
		snapshots: newHistogram("snapshot_duration_seconds", "How long writing a snapshot took.",
			prometheus.ExponentialBuckets(0.001, 4, 10)),
	}
	for v := range fsmpb.Verdict_name { // a counter that appears with its first attempt hides that attempt from a rate
		if v != int32(fsmpb.Verdict_VERDICT_UNSPECIFIED) {
			m.attempts.WithLabelValues(verdictName(fsmpb.Verdict(v)))
		}
	}
	m.collectors = []prometheus.Collector{
		m.entries, m.commands, m.entryBytes, m.commitSeconds, m.refused, m.noRoom, m.noMemory, m.lateness, m.attempts,
		m.takeovers, m.reclaimed, m.clockPauses, m.snapshots, m.broken,
		gauge("leader", "1 while this node leads the shard.", func() float64 {
			if s.IsLeader() {
				return 1
			}
			return 0
		}),
		gauge("horizon_seconds", "How far ahead of the clock the wheel is moved.", func() float64 {
			return s.latencies.horizon().Seconds()
		}),
		gauge("applied_index", "Raft index of the last entry applied here.", func() float64 {
			return float64(s.applier.index.Load())
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "belfry", Subsystem: "shard", Name: "restores_total",
			Help: "Times that this replica's state was replaced by a snapshot.",
		}, func() float64 { return float64(s.applier.restores.Load()) }),
		stateCollector{s},
	}
	m.registerer = Labelled(registerer, s.cfg.ID)
	return m
}

// Labelled adds the label "shard" of a Raft group to a registerer. The control group has 0. A nil registerer stays nil.
func Labelled(registerer prometheus.Registerer, shard uint32) prometheus.Registerer {
	if registerer == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"shard": strconv.FormatUint(uint64(shard), 10)}, registerer)
}

func (m *metrics) register() error {
	if m.registerer == nil {
		return nil
	}
	for i, c := range m.collectors {
		if err := m.registerer.Register(c); err != nil {
			m.collectors = m.collectors[:i]
			m.unregister()
			return err
		}
	}
	return nil
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "belfry", Subsystem: "shard", Name: name, Help: help})
}

func gauge(name, help string, read func() float64) prometheus.Collector {
	opts := prometheus.GaugeOpts{Namespace: "belfry", Subsystem: "shard", Name: name, Help: help}
	return prometheus.NewGaugeFunc(opts, read)
}

func newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(histogram.Both(prometheus.HistogramOpts{
		Namespace: "belfry", Subsystem: "shard", Name: name, Help: help, Buckets: buckets,
	}))
}

func (m *metrics) committed(commands, bytes int, took time.Duration) {
	m.entries.Inc()
	m.commands.Add(float64(commands))
	m.entryBytes.Add(float64(bytes))
	m.commitSeconds.Observe(took.Seconds())
}

func (m *metrics) started(late time.Duration) { m.lateness.Observe(late.Seconds()) }

func (m *metrics) settled(verdict string) { m.attempts.WithLabelValues(verdict).Inc() }

func (m *metrics) snapshotTaken(took time.Duration) { m.snapshots.Observe(took.Seconds()) }

// stateCollector reports the replica's tasks, memory and lanes, counted at each scrape.
type stateCollector struct{ shard *Shard }

var (
	tasksDesc = prometheus.NewDesc("belfry_shard_tasks",
		"Tasks that this replica holds, by state.", []string{"state"}, nil)
	bytesDesc = prometheus.NewDesc("belfry_shard_memory_bytes",
		"Memory of this replica's tasks, blobs and index.", nil, nil)
	lanesDesc = prometheus.NewDesc("belfry_shard_lanes",
		"Receivers with a due task on this replica.", nil, nil)
)

func (c stateCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- tasksDesc
	descs <- bytesDesc
	descs <- lanesDesc
}

func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	counts := c.shard.machine.Counts()
	for state, name := range fsmpb.State_name {
		if state == int32(fsmpb.State_STATE_UNSPECIFIED) {
			continue
		}
		label := strings.ToLower(strings.TrimPrefix(name, "STATE_"))
		out <- prometheus.MustNewConstMetric(tasksDesc, prometheus.GaugeValue, float64(counts.ByState[state]), label)
	}
	out <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(counts.Bytes))
	out <- prometheus.MustNewConstMetric(lanesDesc, prometheus.GaugeValue, float64(counts.Lanes))
}
