package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/contract"
)

// core is the part of a Server that its services share: it reads bodies into commands, carries commands out, and writes
// answers. A service has the handlers of the calls about one resource, and the part of the Backend that they need.
type core struct {
	bounds    Bounds
	logger    *slog.Logger
	now       func() (now time.Time, sure bool)
	tasks     Tasks
	calendars knownCalendars
	limits    Limits // nil: there are none
	audit     Audit
	receivers Receivers
	metrics   *metrics
	buffers   buffers
	work      *admission.Gate
	memory    *admission.Pool

	closing context.Context // ends when the HTTP server begins to shut down
	close   context.CancelFunc
}

func newCore(cfg *Config) (*core, error) {
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("httpapi: metrics: %w", err)
	}
	s := &core{
		bounds: cfg.Bounds, logger: cfg.Logger, now: cfg.Now, tasks: cfg.Backend, calendars: cfg.Backend,
		limits: cfg.Limits, audit: cfg.Audit, receivers: cfg.Receivers, metrics: m,
		work: admission.NewGate(runtime.GOMAXPROCS(0), 0, cfg.Backend.Weight), memory: admission.NewPool(cfg.MemoryBytes),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Tasks are the tasks and schedules of the cluster.
type Tasks interface {
	// Do carries out commands and returns a reply for each, in order. Commands about one id are applied in the given
	// order. Once one of them is refused with task.ErrOverloaded, the later ones about that id are refused too.
	//
	// Do writes into the commands the values that only the shard's leader decides (until when a tombstone is kept), and
	// nothing else. It may still be sending commands after it returned, so the caller must not change them any more. The
	// caller may pass to Do again only the commands that it refused with task.ErrOverloaded.
	Do(ctx context.Context, commands []*fsmpb.Command) []task.Reply

	// Get reads a task, tombstones included, and returns nil without an error if there is none. The read is linearizable,
	// unless stale asks for the nearest replica's state.
	Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error)

	// List reads one page of tasks over all slots. The page is bounded in bytes as well as in tasks.
	List(ctx context.Context, query *fsmpb.ListQuery) (*fsmpb.ListPage, error)

	// MapVersion returns a name for this node's present view of slots, leaders and addresses. A different view has a
	// different name. Each batch calls it.
	MapVersion() string
}

// arrived returns the arrival of a call that comes in now.
func (s *core) arrived() arrival {
	now, sure := s.now()
	return arrival{now, sure}
}

func (s *core) parser(c *call) *parser {
	return &parser{
		now: s.arrived(), namespace: c.namespace, id: c.Param("id"), traceparent: traceOf(c.Request()),
		receivers: s.receivers, calendars: s.calendars,
	}
}

func (s *core) readFailed(err error) error {
	p := readProblem(err)
	if p.kind == internalError {
		s.logger.Error("read failed", "err", err)
	}
	return p
}

// bodyOf reads the body of a call by parse, which must not keep the data.
func bodyOf[T any](s *core, c echo.Context, parse func(data []byte) (T, error)) (T, error) {
	body, err := bind(c, s.bounds.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return *new(T), err
	}
	return parse(body.data)
}

// emptyBody accepts an empty body, or an object without members.
func (s *core) emptyBody(c echo.Context) error {
	_, err := bodyOf(s, c, func(data []byte) (*draft, error) {
		return new(parser).parseOptional(data, &contract.EmptyObject)
	})
	return err
}

// writeWithin bounds the time from now until the call's answer is taken.
func (s *core) writeWithin(c echo.Context, d time.Duration) {
	s.writeUntil(c, time.Now().Add(d)) // the socket's clock, not the injected one
}

// writeUntil sets the instant until which the call's answer must be taken; zero: no bound.
func (s *core) writeUntil(c echo.Context, at time.Time) {
	s.ignoreUnsupported(http.NewResponseController(c.Response().Writer).SetWriteDeadline(at))
}

// ignoreUnsupported drops the error of a writer without a connection, as in tests. It logs any other error for
// debugging.
func (s *core) ignoreUnsupported(err error) { ignoreUnsupported(s.logger, err) }
