package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/tracing"
)

// Backend carries out calls, wherever in the cluster their tasks live. Its methods may be called concurrently. Errors
// are package task's, or a context's.
type Backend interface {
	Tasks
	Leases
	Queues
	Calendars
	Keys
	JWTKeys
	Namespaces
	Operations
	Nodes
}

// Config holds the settings of a Server.
type Config struct {
	Backend Backend
	// Access finds the callers. Nil: every call is made by a local caller, who may do everything.
	Access Access
	// Limits keeps calls within the quotas of their namespaces and keys. Nil: there are none.
	Limits Limits
	// Events reads what happened to tasks. Nil: nothing is kept.
	Events Events
	// Audit records the calls of operators, and the calls that were refused because of their callers. Nil: none are.
	Audit Audit
	// Receivers are the receivers that tasks may have. Nil: all.
	Receivers Receivers
	// Origins is the policy on the host names and web pages that may call. Nil: localhost, IP literals, and the node's own
	// pages.
	Origins *origin.Policy
	// UI serves the dashboard below /ui/. Nil: there is none.
	UI http.Handler
	// Gatherer is the source of GET /metrics. Nil: no metrics.
	Gatherer prometheus.Gatherer
	// Registerer registers the server's own metrics. Nil: they are not registered.
	Registerer prometheus.Registerer
	Logger     *slog.Logger // nil: discards
	// Tracer makes a span of each call. Nil: none is made.
	Tracer *tracing.Tracer
	// AccessLog gets a record of each call, at level info. Nil: Logger gets them, at level debug.
	AccessLog *slog.Logger
	// Now returns the time, and whether the node is sure of it. While it is not sure, calls that count from now are
	// refused. Nil: time.Now.
	Now func() (now time.Time, sure bool)
	// DevClock is the clock of a node in dev mode. Nil: the node is not in dev mode, and has no call to set its clock.
	DevClock DevClock

	Bounds
}

// Bounds are the times, sizes and numbers that a Server allows. A zero one takes the default that is written beside it.
type Bounds struct {
	RequestTimeout time.Duration // 10s: for a call's commit or read
	BodyTimeout    time.Duration // 10s: for a single call's body to arrive
	IdleTimeout    time.Duration // 3m: for an idle connection between calls
	BodyBytes      int           // 512 KiB: the body of a single call, or a batch line
	MemoryBytes    int           // 256 MiB: bodies, leased payloads and batch answers of all calls
	MaxInFlight    int           // 4096: single calls in progress
	MaxBatches     int           // 256: open batch streams
	SettleBytes    int           // 2 MiB: the body of a settle
	MaxPolls       int           // 16384: consumers waiting for a lease
	MaxStreams     int           // 1024: open consumers' streams
	MaxBackups     int           // 2: backups under way
	MaxEvents      int           // 256: open streams of events

	BatchIdle        time.Duration // 1m: for a batch without a line from its client
	BatchStall       time.Duration // 1m: for a batch or a backup whose client takes no bytes
	BatchChunkBytes  int           // 256 KiB: lines that wait during a commit
	BatchChunkLines  int           // 2048: number of such lines
	BatchAnswerBytes int           // 16 MiB: answers that wait for one batch's client

	StreamBeat  time.Duration // 15s: interval of heartbeats on an idle stream
	StreamBytes int           // 256 KiB: lines that wait for one stream's client; one answer of the shards always fits
}

func (c *Config) setDefaults() {
	c.Bounds.setDefaults()
	if c.Receivers == nil {
		c.Receivers = allReceivers{}
	}
	if c.Audit == nil {
		c.Audit = noAudit{}
	}
	if c.Events == nil {
		c.Events = noEvents{}
	}
	if c.Origins == nil {
		c.Origins = new(origin.Policy)
	}
	if c.Gatherer == nil {
		c.Gatherer = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = func() (time.Time, bool) { return time.Now(), true }
	}
}

func (b *Bounds) setDefaults() {
	setDefault(&b.RequestTimeout, 10*time.Second)
	setDefault(&b.BodyTimeout, 10*time.Second)
	setDefault(&b.IdleTimeout, 3*time.Minute)
	setDefault(&b.BodyBytes, 512<<10)
	setDefault(&b.MemoryBytes, 256<<20)
	setDefault(&b.MaxInFlight, 4096)
	setDefault(&b.MaxBatches, 256)
	setDefault(&b.SettleBytes, 2<<20)
	setDefault(&b.MaxPolls, 16384)
	setDefault(&b.MaxStreams, 1024)
	setDefault(&b.MaxBackups, 2)
	setDefault(&b.MaxEvents, 256)
	setDefault(&b.BatchIdle, time.Minute)
	setDefault(&b.BatchStall, time.Minute)
	setDefault(&b.BatchChunkBytes, 256<<10)
	setDefault(&b.BatchChunkLines, 2048)
	setDefault(&b.BatchAnswerBytes, 16<<20)
	setDefault(&b.StreamBeat, 15*time.Second)
	setDefault(&b.StreamBytes, 256<<10)
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// allReceivers allows every receiver.
type allReceivers struct{}

func (allReceivers) CheckURL(string) *task.FieldError { return nil }

func (c *Config) validate() error {
	if c.Backend == nil {
		return errors.New("httpapi: no backend")
	}
	return c.Bounds.validate()
}

func (b *Bounds) validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"RequestTimeout", b.RequestTimeout}, {"BodyTimeout", b.BodyTimeout}, {"IdleTimeout", b.IdleTimeout},
		{"BatchIdle", b.BatchIdle}, {"BatchStall", b.BatchStall}, {"StreamBeat", b.StreamBeat},
	} {
		if d.value < 0 {
			return fmt.Errorf("httpapi: %s is negative: %v", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"BodyBytes", b.BodyBytes}, {"MemoryBytes", b.MemoryBytes}, {"MaxInFlight", b.MaxInFlight},
		{"MaxBatches", b.MaxBatches}, {"SettleBytes", b.SettleBytes}, {"MaxPolls", b.MaxPolls},
		{"MaxStreams", b.MaxStreams}, {"MaxBackups", b.MaxBackups},
		{"BatchChunkBytes", b.BatchChunkBytes},
		{"BatchChunkLines", b.BatchChunkLines}, {"BatchAnswerBytes", b.BatchAnswerBytes},
		{"StreamBytes", b.StreamBytes}, {"MaxEvents", b.MaxEvents},
	} {
		if n.value < 0 {
			return fmt.Errorf("httpapi: %s is negative: %d", n.name, n.value)
		}
	}
	return nil
}
