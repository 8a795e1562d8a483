package history

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/history/internal/segment"
)

const (
	defaultBuffer = 4 << 20
	blockBytes    = 64 << 10 // of events, before compression
	maxSegment    = 4 << 20
	minSegment    = 64 << 10
	segmentsKept  = 32 // a namespace's limit is about this many segments

	retryPeriod = time.Second // between two attempts to write after a failure
	keepPeriod  = time.Minute // between two looks at the ages of segments
)

// Config names the folder of a store and its limits.
type Config struct {
	Dir string

	Bytes int64         // limit for each namespace over all shards; 0: none
	Age   time.Duration // limit for all events; 0: none
	Total int64         // limit on the bytes of all segments; 0: none

	// Buffer is the limit for each shard on the bytes of events that wait for the disk. Default 4 MiB.
	Buffer int

	Clock      func() time.Time // wall clock; default time.Now
	Logger     *slog.Logger     // default slog.Default
	Registerer prometheus.Registerer

	open func(path string) (segment.File, error) // opens a segment for writing; default openFile
}

func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("history: Dir is empty")
	}
	if c.Bytes < 0 || c.Age < 0 || c.Total < 0 || c.Buffer < 0 {
		return errors.New("history: Bytes, Age, Total and Buffer must not be negative")
	}
	if c.Buffer == 0 {
		c.Buffer = defaultBuffer
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.open == nil {
		c.open = openFile
	}
	return nil
}

func openFile(path string) (segment.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
}

// segmentBytes is the size at which an active segment is sealed.
func (c *Config) segmentBytes() int64 {
	if c.Bytes == 0 {
		return maxSegment
	}
	return min(max(c.Bytes/segmentsKept, minSegment), maxSegment)
}
