package httpapi

import (
	"context"
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// Limits keeps the calls of namespaces and keys within their quotas. key is the id of the caller's key, or empty. A
// refusal is a *quota.Exceeded, or wraps task.ErrNotProposed if the part of the cluster that knows does not answer. It
// may be called concurrently.
type Limits interface {
	// Call admits a request, before it is read. The namespace is empty for a call that counts for the key alone.
	Call(ctx context.Context, namespace, key string) error
	// Schedule admits a call that may make a task.
	Schedule(ctx context.Context, namespace, key string) error
	// ScheduleLines waits until n lines of a batch may make tasks.
	ScheduleLines(ctx context.Context, namespace, key string, n int) error
	// Payload refuses a payload over the limit.
	Payload(namespace, key string, bytes int64) error
	// Queue refuses a task in a queue that would be one too many.
	Queue(ctx context.Context, namespace, queue string) error
	// Policy refuses a policy of a queue that would be one too many.
	Policy(ctx context.Context, namespace, queue string) error
	// Consumer admits a stream, or a lease that waits, until leave is called.
	Consumer(ctx context.Context, namespace, key string) (leave func(), err error)
	// Use returns the use of a namespace that no shard counts: its consumers and rates.
	Use(ctx context.Context, namespace string) (view.Usage, error)
}

// key returns the id of the caller's key, or "" for callers of other kinds.
func (c *call) key() string {
	if c.caller.Kind == access.KindKey {
		return c.caller.ID
	}
	return ""
}

// admitCall refuses a call beyond the rates of its namespace and key, before the call is read. A call that is not about
// the tasks of one namespace counts for the caller's own. No rate holds back the doctor.
func (s *Server) admitCall(c *call) error {
	namespace := c.namespace
	if namespace == "" {
		namespace = c.caller.OwnNamespace()
	}
	if s.cfg.Limits == nil || namespace == "" && c.key() == "" || c.Path() == doctorPath {
		return nil
	}
	return s.cfg.Limits.Call(c.Request().Context(), namespace, c.key())
}

// bodyBeside is the largest part of a body beside its payload: headers, labels, addresses and names.
const bodyBeside = 32 << 10

// scheduling admits a single call that may make a task. A body whose payload is certainly over the limit is not read.
func (s *Server) scheduling(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.cfg.Limits == nil {
			return next(c)
		}
		cl := callOf(c)
		least := max(c.Request().ContentLength-bodyBeside, 0) / 4 * 3 // base64 makes a payload longer by a third
		if err := s.cfg.Limits.Payload(cl.namespace, cl.key(), least); err != nil {
			return err
		}
		if err := s.cfg.Limits.Schedule(c.Request().Context(), cl.namespace, cl.key()); err != nil {
			return err
		}
		return next(c)
	}
}

// admitCommand refuses a command with a payload over the limit, or in a queue that would be one too many.
func (s *core) admitCommand(ctx context.Context, c *call, cmd *fsmpb.Command) error {
	if s.limits == nil {
		return nil
	}
	spec := givenSpec(cmd)
	touch := cmd.GetTouch()
	payload := max(task.PayloadBytes(spec), task.PayloadBytes(cmd.GetPatch().GetSet()), len(touch.GetPayload().GetData()))
	if err := s.limits.Payload(c.namespace, c.key(), int64(payload)); err != nil {
		return err
	}
	var bound *quota.Exceeded
	if len(touch.GetAppend()) > 0 && errors.As(s.limits.Payload(c.namespace, c.key(), task.MaxPayloadBytes), &bound) {
		touch.MaxPayload = int64(bound.Limit)
	}
	if spec == nil {
		return nil
	}
	return s.limits.Queue(ctx, c.namespace, orElse(spec.Queue, task.DefaultQueue))
}

// admitTouch is scheduling for a touch, which may make a task only if its body says so.
func (s *core) admitTouch(ctx context.Context, c *call, cmd *fsmpb.Command) error {
	if s.limits == nil || cmd.GetTouch().GetOrSchedule() == nil {
		return nil
	}
	return s.limits.Schedule(ctx, c.namespace, c.key())
}

// admitPolicy refuses a policy of a queue that would be one too many.
func (s *queueService) admitPolicy(ctx context.Context, c *call, queue string) error {
	if s.limits == nil {
		return nil
	}
	return s.limits.Policy(ctx, c.namespace, queue)
}

// consuming admits a consumer for as long as its call lasts.
func (s *Server) consuming(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.cfg.Limits == nil {
			return next(c)
		}
		cl := callOf(c)
		ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
		defer cancel()
		leave, err := s.cfg.Limits.Consumer(ctx, cl.namespace, cl.key())
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}

// awaitSchedules waits until the lines of a batch that may make tasks are within the rates. The stream slows down,
// rather than that each line is answered with 429.
func (s *batchService) awaitSchedules(ctx context.Context, c *call, cmds []*fsmpb.Command) error {
	if s.limits == nil {
		return nil
	}
	n := 0
	for _, cmd := range cmds {
		if scheduled(cmd) != nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return s.limits.ScheduleLines(ctx, c.namespace, c.key(), n)
}
