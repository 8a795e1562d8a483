package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Limits keeps the calls of namespaces and keys within their quotas. key is the id of the caller's key, or empty. A
// refusal is a *quota.Exceeded. It may be called concurrently.
type Limits interface {
	// Call admits a request, before it is read.
	Call(ctx context.Context, namespace, key string) error
	// Schedule admits a call that may make a task.
	Schedule(ctx context.Context, namespace, key string) error
	// ScheduleLines waits until n lines of a batch may make tasks.
	ScheduleLines(ctx context.Context, namespace, key string, n int) error
	// Payload refuses a payload over the limit.
	Payload(namespace, key string, bytes int64) error
}

// key returns the id of the caller's key, or "" for callers of other kinds.
func (c *call) key() string {
	if c.caller.Kind == access.KindKey {
		return c.caller.ID
	}
	return ""
}

// admitCall refuses a call beyond the rates of its namespace and key, before the call is read. Calls about the whole
// cluster have no quota, so that an operator can always raise one.
func (s *Server) admitCall(c *call) error {
	if s.cfg.Limits == nil || c.namespace == "" {
		return nil
	}
	return s.cfg.Limits.Call(c.Request().Context(), c.namespace, c.key())
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
		if err := s.cfg.Limits.Payload(cl.namespace, cl.key(), leastPayload(c.Request())); err != nil {
			return err
		}
		if err := s.cfg.Limits.Schedule(c.Request().Context(), cl.namespace, cl.key()); err != nil {
			return err
		}
		return next(c)
	}
}

// leastPayload returns the bytes that the payload of a request has at least, by the length of its body. Base64 makes a
// payload longer by a third.
func leastPayload(r *http.Request) int64 { return max(r.ContentLength-bodyBeside, 0) / 4 * 3 }

// checkPayload refuses a command with a payload over the limit.
func (s *Server) checkPayload(c *call, cmd *fsmpb.Command) error {
	if s.cfg.Limits == nil {
		return nil
	}
	payload := cmd.GetSchedule().GetSpec().GetPayload()
	if payload == nil {
		payload = cmd.GetTouch().GetOrSchedule().GetSpec().GetPayload()
	}
	if payload == nil {
		payload = cmd.GetPatch().GetPayload().GetData()
	}
	return s.cfg.Limits.Payload(c.namespace, c.key(), int64(len(payload)))
}

// awaitSchedules waits until the lines of a batch that may make tasks are within the rates. The stream slows down,
// rather than that each line is answered with 429.
func (s *Server) awaitSchedules(ctx context.Context, c *call, cmds []*fsmpb.Command) error {
	if s.cfg.Limits == nil {
		return nil
	}
	n := 0
	for _, cmd := range cmds {
		if cmd.GetSchedule() != nil || cmd.GetTouch().GetOrSchedule() != nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return s.cfg.Limits.ScheduleLines(ctx, c.namespace, c.key(), n)
}
