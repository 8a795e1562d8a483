package history

import "github.com/prometheus/client_golang/prometheus"

// metrics holds the metrics of a store. They also work unregistered. Reading them waits for no disk.
type metrics struct {
	written prometheus.Counter
	dropped prometheus.Counter
	gaps    prometheus.Counter
	corrupt prometheus.Counter
	errors  prometheus.Counter
	removed prometheus.Counter
	bytes   prometheus.GaugeFunc
	waiting prometheus.GaugeFunc
}

func newMetrics(s *Store) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "belfry_history_" + name + "_total", Help: help})
	}
	gauge := func(name, help string, value func(*Shard) int64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "belfry_history_" + name, Help: help},
			func() float64 { return float64(s.sum(value)) })
	}
	return &metrics{
		written: counter("events", "Events written to the disk."),
		dropped: counter("dropped_events", "Events dropped because too many waited for the disk."),
		gaps:    counter("gaps", "Gaps recorded, for dropped events and for entries that the node never had."),
		corrupt: counter("corrupt", "Unreadable places met in files, counted each time."),
		errors:  counter("errors", "Failed writes, and failed removals of old events."),
		removed: counter("removed_bytes", "Bytes of segments removed by the limits, rewriting or deletion."),
		bytes:   gauge("bytes", "Bytes of all segments.", (*Shard).size),
		waiting: gauge("waiting_bytes", "Memory of the events that wait for the disk.", (*Shard).buffered),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{
		m.written, m.dropped, m.gaps, m.corrupt, m.errors, m.removed, m.bytes, m.waiting,
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// sum adds up a number of all open shards.
func (s *Store) sum(value func(*Shard) int64) (total int64) {
	for _, sh := range s.open() {
		total += value(sh)
	}
	return total
}

// size returns the bytes of the segments.
func (s *Shard) size() (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.segments {
		bytes += p.size
	}
	return bytes
}

// buffered returns the bytes of the events that wait for the disk.
func (s *Shard) buffered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.buffer.bytes)
}
