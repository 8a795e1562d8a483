package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/rights"
	"github.com/belfryhq/belfry/internal/contract"
)

// recover turns a panic into an answer and a log line. http.ErrAbortHandler passes, since handlers cut a connection
// with it. echo's own Recover is not used: its package needs one more module, for its rate limiter.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { //nolint:errorlint // net/http, which it is for, compares so too
				panic(cause)
			}
			s.cfg.Logger.Error("panic in a call", "method", c.Request().Method, "path", c.Path(),
				"id", requestID(c.Request()), "panic", cause, "stack", string(debug.Stack()))
			err = &problem{kind: internalError, detail: "the node's log says more", committed: "unknown", retryAfter: 1}
		}()
		return next(c)
	}
}

// params refuses every query parameter that the call does not know, or that is given twice. Parameters that may be
// repeated must have different values.
func params(known ...string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if raw := c.Request().URL.RawQuery; raw != "" {
				if err := checkQuery(raw, known); err != nil {
					return err
				}
			}
			return next(c)
		}
	}
}

func checkQuery(raw string, known []string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return fieldProblem("query", "is not percent-encoded as it should be", "")
	}
	for name, values := range query {
		if name == "" {
			return fieldProblem("query", "has a parameter without a name", "")
		}
		if !slices.Contains(known, name) {
			return fieldProblem(name, "is not a parameter of this call", "")
		}
		if len(values) > 1 && (!mayRepeat(name) || hasEqual(values)) {
			return contract.Twice(name)
		}
	}
	return nil
}

func mayRepeat(parameter string) bool {
	return parameter == "state" || parameter == "label" || parameter == "id" || parameter == "type"
}

func hasEqual(values []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(values)))) < len(values)
}

// named decodes and checks a name in the path, and refuses a queue that the caller's grants do not reach.
func named(param string) echo.MiddlewareFunc {
	return namedBy(param, func(field, name string) error { return checked(task.CheckName(field, name)) })
}

// namedNew is named for an id that the caller gives to a task or a schedule.
func namedNew(param string) echo.MiddlewareFunc { return namedBy(param, checkNewID) }

// namedTask is named for the id of a task that is read or changed. It may be an occurrence of a schedule.
func namedTask(param string) echo.MiddlewareFunc { return namedBy(param, checkTaskID) }

// checkNewID checks an id that a caller gives to a task or a schedule.
func checkNewID(field, id string) error {
	err := task.CheckName(field, id)
	if err != nil && strings.Contains(id, "@") {
		err.Detail += ": ids with @ belong to the occurrences of schedules, which PUT /v1/schedules/{id} makes"
	}
	return checked(err)
}

// checkTaskID checks the id of a task that a call reads or changes.
func checkTaskID(field, id string) error { return checked(task.CheckTaskID(field, id)) }

// namedBy decodes a name in the path, and checks it. The router leaves a name encoded if it has bytes with another
// spelling.
func namedBy(param string, check func(field, name string) error) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if c.Request().URL.RawPath != "" {
				name, err := url.PathUnescape(c.Param(param))
				if err != nil {
					return fieldProblem(param, "is not percent-encoded as it should be", nameRule)
				}
				c.ParamValues()[slices.Index(c.ParamNames(), param)] = name
			}
			name := c.Param(param)
			if err := check(param, name); err != nil {
				return err
			}
			if param == "queue" {
				if err := callOf(c).checkQueue(name); err != nil {
					return err
				}
			}
			return next(c)
		}
	}
}

// soundKey checks the idempotency key of a call about a queue. The key is not kept, since such a call is safe to repeat
// without it.
func soundKey(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := new(command).takeKey(c.Request().Header); err != nil {
			return err
		}
		return next(c)
	}
}

// unconditional refuses conditions on a call that creates an id.
func unconditional(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		for _, name := range []string{"If-Match", "If-None-Match"} {
			if c.Request().Header.Get(name) != "" {
				return fieldProblem(name, "has no use here: a generated id never replaces a task", "")
			}
		}
		return next(c)
	}
}

// consistency refuses a read with an unknown consistency.
func consistency(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if _, value := isStale(c); value != "stale" {
			return fieldProblem("consistency", fmt.Sprintf("is %q and can only be stale", contract.Clip(value)), "")
		}
		return next(c)
	}
}

// isStale reports whether a read may be stale, and returns the parameter's value.
func isStale(c echo.Context) (stale bool, value string) {
	if c.Request().URL.RawQuery == "" {
		return false, "stale"
	}
	query := c.QueryParams()
	if !query.Has("consistency") {
		return false, "stale"
	}
	return true, query.Get("consistency")
}

// lines refuses a body that is not lines of JSON.
func lines(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := checkLines(c.Request()); err != nil {
			return err
		}
		return next(c)
	}
}

func checkLines(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	return checkType(r.Header, ndjsonType)
}

// watched gives a call its right. The handler ends the call when the right is lost.
func (s *Server) watched(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer s.watch(callOf(c))()
		return next(c)
	}
}

// hurried bounds the time for the answer of a watched call whose right is lost.
func (s *Server) hurried(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer atLoss(callOf(c).right, func() { s.writeWithin(c, 2*lastWords) })()
		return next(c)
	}
}

// atLoss calls a function that bounds an answer when a right is lost, until stop. After stop the function does not run:
// a connection must not be used after its handler.
func atLoss(right *rights.Right, bound func()) (stop func()) {
	bounded := make(chan struct{})
	forget := context.AfterFunc(right.Lost(), func() {
		defer close(bounded)
		bound()
	})
	return func() {
		if !forget() {
			<-bounded
		}
	}
}
