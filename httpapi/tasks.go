package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat/calendar"
)

// taskService answers the calls about single tasks, and about lists of them.
type taskService struct{ *core }

func (s *taskService) put(c echo.Context) error {
	return s.change(c, fsmpb.Answer_ANSWER_TASK, jsonBodies, func(p *parser, data []byte) (*command, error) {
		d, err := p.parse(data, &contract.PutObject)
		if err != nil {
			return nil, err
		}
		if d.seen.Has(contract.ID) && d.command.msg.Id != p.id {
			return nil, &task.FieldError{Field: "id", Detail: "is not the id in the path"}
		}
		return d.command, p.asSchedule(d, false)
	})
}

func (s *taskService) post(c echo.Context) error {
	return s.change(c, fsmpb.Answer_ANSWER_TASK, jsonBodies, func(p *parser, data []byte) (*command, error) {
		d, err := p.parse(data, &contract.PostObject)
		if err != nil {
			return nil, err
		}
		return d.command, p.asSchedule(d, true)
	})
}

func (s *taskService) patch(c echo.Context) error {
	return s.change(c, fsmpb.Answer_ANSWER_FULL, patchBodies, func(p *parser, data []byte) (*command, error) {
		d, err := p.patch(data, &contract.PatchObject)
		return d.command, err
	})
}

func (s *taskService) touch(c echo.Context) error {
	return s.change(c, fsmpb.Answer_ANSWER_FULL, jsonBodies, func(p *parser, data []byte) (*command, error) {
		d, err := p.parseOptional(data, &contract.TouchObject)
		if err != nil {
			return nil, err
		}
		if d.command.orSchedule != nil {
			if err := checkNewID("id", p.id); err != nil {
				return nil, err
			}
		}
		return d.command, p.asTouch(d)
	})
}

func (s *taskService) fire(c echo.Context) error {
	return s.change(c, fsmpb.Answer_ANSWER_FULL, jsonBodies, func(p *parser, data []byte) (*command, error) {
		d, err := p.parseOptional(data, &contract.EmptyObject)
		if err != nil {
			return nil, err
		}
		p.asFire(d)
		return d.command, nil
	})
}

func (s *taskService) cancel(c echo.Context) error {
	return s.change(c, fsmpb.Answer_ANSWER_BRIEF, jsonBodies, func(p *parser, data []byte) (*command, error) {
		d, err := p.parseOptional(data, &contract.EmptyObject)
		if err != nil {
			return nil, err
		}
		p.asCancel(d)
		return d.command, nil
	})
}

// parseOptional reads a body as parse does, and accepts an empty body as an empty object.
func (p *parser) parseOptional(data []byte, o *contract.Object) (*draft, error) {
	if len(data) == 0 {
		return p.newDraft(nil), nil
	}
	return p.parse(data, o)
}

// change runs every single call that changes a task: it checks, reads, parses, commits and answers.
func (s *taskService) change(c echo.Context, answer fsmpb.Answer, types []string, build builder) error {
	return s.changeRecord(c, c.Param("id"), answer, types, build, s.answer)
}

func (s *taskService) answer(c *call, cmd *fsmpb.Command, result *fsmpb.Result) error {
	w := c.Response()
	if cmd.GetCancel() != nil {
		w.Header()["Etag"] = etag(result.Revision)
		writeJSON(w, http.StatusOK, []byte(`{"outcome":"`+outcomeName(result.Outcome)+"\"}\n"))
		return nil
	}
	if result.Task == nil {
		return fmt.Errorf("the backend answered %v without the task", result.Code)
	}
	v := viewOf(result.Task)
	v.revision, v.previous = result.Revision, result.Previous
	if spec := cmd.GetSchedule().GetSpec(); spec != nil { // the result has no payload; the caller's is the same
		v.payload, v.payloadIsBytes = spec.Payload, spec.PayloadIsBytes
	}
	if cmd.GetSchedule().GetGeneratedId() {
		w.Header().Set("Location", c.locate("/tasks/"+result.Task.Id))
	}
	s.writeTask(w, statusOf(result.Code), v)
	return nil
}

func statusOf(code fsmpb.Code) int {
	if code == fsmpb.Code_CODE_CREATED {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *taskService) get(c echo.Context) error {
	stale, _ := isStale(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	cl := callOf(c)
	task, err := s.tasks.Get(ctx, cl.namespace, c.Param("id"), stale)
	switch {
	case err != nil:
		return s.readFailed(err)
	case task == nil || !cl.reaches(task):
		return notFound()
	}
	s.writeTask(c.Response(), http.StatusOK, viewOf(task))
	return nil
}

// traceparent returns the request's trace context if it is well-formed (W3C Trace Context, version 00), or else "". The
// standard asks receivers to ignore a malformed one.
func traceparent(h http.Header) string {
	const form = "00-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh"
	values := h["Traceparent"]
	if len(values) != 1 || len(values[0]) != len(form) {
		return ""
	}
	for i := range len(form) {
		c := values[0][i]
		lowerHex := '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
		if form[i] == 'h' && !lowerHex || form[i] != 'h' && form[i] != c {
			return ""
		}
	}
	return values[0]
}

// maxPreviewBytes is the limit of the body of a preview: the longest rule has 116 texts.
const maxPreviewBytes = 64 << 10

// preview answers with the next occurrences of a rule, and keeps nothing. A node that is unsure of the time answers
// too, since the first occurrence shows the node's time.
func (s *taskService) preview(c echo.Context) error {
	body, err := bind(c, maxPreviewBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	cl := callOf(c)
	s.work.Enter(cl.namespace, len(body.data))
	defer s.work.Leave(cl.namespace)
	now, _ := s.now()
	answer, err := repeating.NextOf(body.data, now, func(r *fsmpb.Repeat) *calendar.Calendar {
		return calendarOf(s.calendars, cl.namespace, r.GetCalendar())
	})
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, answer)
}
