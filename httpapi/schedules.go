package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// scheduleService answers the calls about schedules.
type scheduleService struct{ *core }

func (s *scheduleService) put(c echo.Context) error {
	id := c.Param("id")
	return s.change(c, s.answer, func(p *parser, data []byte) (*command, error) {
		set, err := p.newSeries(data, id)
		return &command{msg: fsmpb.Command{Op: &fsmpb.Command_SetSeries{SetSeries: set}}}, err
	})
}

func (s *scheduleService) pause(c echo.Context) error { return s.hold(c, true) }

func (s *scheduleService) resume(c echo.Context) error { return s.hold(c, false) }

// hold pauses or resumes a schedule. The body may give a note.
func (s *scheduleService) hold(c echo.Context, paused bool) error {
	return s.change(c, s.answer, func(_ *parser, data []byte) (*command, error) {
		text, err := pauseNote(data)
		op := &fsmpb.PauseSeries{Paused: paused, Note: text}
		return &command{msg: fsmpb.Command{Op: &fsmpb.Command_PauseSeries{PauseSeries: op}}}, err
	})
}

func (s *scheduleService) fire(c echo.Context) error {
	return s.change(c, s.answerFire, func(p *parser, data []byte) (*command, error) {
		_, err := p.parseOptional(data, &contract.EmptyObject)
		op := new(fsmpb.StartOccurrence)
		return &command{msg: fsmpb.Command{Op: &fsmpb.Command_StartOccurrence{StartOccurrence: op}}}, err
	})
}

func (s *scheduleService) skip(c echo.Context) error {
	return s.change(c, s.answer, func(p *parser, data []byte) (*command, error) {
		_, err := p.parseOptional(data, &contract.EmptyObject)
		op := new(fsmpb.SkipOccurrence)
		return &command{msg: fsmpb.Command{Op: &fsmpb.Command_SkipOccurrence{SkipOccurrence: op}}}, err
	})
}

// change runs a call whose command does not depend on the stored schedule.
func (s *scheduleService) change(c echo.Context, write func(*call, *fsmpb.Command, *fsmpb.Result) error,
	build builder) error {
	id := task.SeriesID(c.Param("id"))
	return s.changeRecord(c, id, fsmpb.Answer_ANSWER_FULL, jsonBodies, build, write)
}

// patch merges a merge patch (RFC 7396) into the stored schedule.
func (s *scheduleService) patch(c echo.Context) error {
	return s.revise(c, patchBodies, func(p *parser, data []byte) (revision, error) {
		text, err := canonical(data)
		var payload []byte // byte for byte
		return revision{
			command: func(stored *fsmpb.Task, cmd *fsmpb.Command) error {
				d, err := p.patchSeries(data, stored)
				cmd.Op, payload = &fsmpb.Command_SetSeries{SetSeries: d.set}, d.patched
				return err
			},
			describe: func() []byte { return slices.Concat([]byte("patch schedule\x00"), text, []byte{0}, payload) },
		}, err
	})
}

// backfill begins the occurrences of the stored rule in a range of the past.
func (s *scheduleService) backfill(c echo.Context) error {
	return s.revise(c, jsonBodies, func(p *parser, data []byte) (revision, error) {
		b, err := p.backfill(data)
		return revision{
			command: func(stored *fsmpb.Task, cmd *fsmpb.Command) error {
				rule, err := p.rule(stored.Series.Repeat)
				if err != nil {
					return err
				}
				instants, err := b.instants(rule)
				cmd.Op = &fsmpb.Command_Backfill{Backfill: &fsmpb.Backfill{ScheduledMs: instants}}
				return err
			},
			describe: func() []byte { return fmt.Appendf(nil, "backfill %d %d", b.from, b.to) },
		}, err
	})
}

// remove ends a schedule, and answers with the schedule as it was. Its occurrences stay. The call keeps no
// idempotency key, since nothing of the schedule remains that could remember it.
func (s *scheduleService) remove(c echo.Context) error {
	return s.revise(c, jsonBodies, func(p *parser, data []byte) (revision, error) {
		_, err := p.parseOptional(data, &contract.EmptyObject)
		return revision{
			final: true,
			command: func(_ *fsmpb.Task, cmd *fsmpb.Command) error {
				cmd.Op = &fsmpb.Command_Erase{Erase: new(fsmpb.Erase)}
				return nil
			},
		}, err
	})
}

func (s *scheduleService) get(c echo.Context) error {
	t, err := s.read(c)
	if err != nil {
		return err
	}
	s.write(c.Response(), http.StatusOK, s.view(t, t.Revision))
	return nil
}

// read reads the schedule in the path, if the caller's grants reach it.
func (s *scheduleService) read(c echo.Context) (*fsmpb.Task, error) {
	stale, _ := isStale(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	cl, id := callOf(c), task.SeriesID(c.Param("id"))
	t, err := s.tasks.Get(ctx, cl.namespace, id, stale)
	switch {
	case err != nil:
		return nil, s.readFailed(err)
	case t.GetSeries() == nil || !cl.reaches(t):
		return nil, missing(id)
	}
	return t, nil
}

func (s *scheduleService) list(c echo.Context) error {
	return s.listRecords(c, listed{`{"schedules":[`, listsSchedules, func(b []byte, t *fsmpb.Task, payload bool) []byte {
		v := s.view(t, t.Revision)
		v.payload = payload
		return v.append(b)
	}})
}

// occurrences answers the coming occurrences of a schedule, and its last ones.
func (s *scheduleService) occurrences(c echo.Context) error {
	next, err := occurrenceCount(c, "next")
	if err != nil {
		return err
	}
	last, err := occurrenceCount(c, "last")
	if err != nil {
		return err
	}
	t, err := s.read(c)
	if err != nil {
		return err
	}
	cl := callOf(c)
	s.work.Enter(cl.namespace, viewBytes*(next+last))
	defer s.work.Leave(cl.namespace)
	coming, err := comingOf(t.Series, calendarOf(s.calendars, cl.namespace, t.Series.Repeat.GetCalendar()), next)
	if err != nil {
		return err
	}
	s.writeOccurrences(c.Response(), coming, lastOf(t.Series, last))
	return nil
}

// revision is a change to a schedule that depends on the stored one.
type revision struct {
	// command sets the command's op. It may run more than once, each time with what is stored then, and must not write to
	// stored.
	command  func(stored *fsmpb.Task, cmd *fsmpb.Command) error
	describe func() []byte // describes the call for its key, after command; see the type command
	final    bool          // the change ends the schedule: the call keeps no key, and answers with what was stored
}

// revise runs a call whose command depends on the stored schedule. It reads the schedule, and makes the revision that
// it has read a condition of the command. A schedule that changes between the two is read again.
func (s *scheduleService) revise(c echo.Context, types []string, build func(*parser, []byte) (revision, error)) error {
	cl := callOf(c)
	body, err := bind(c, s.bounds.BodyBytes, types...)
	defer body.release()
	if err != nil {
		return err
	}
	r, err := s.revisionInTurn(cl, build, body.data)
	if err != nil {
		return err
	}
	cmd := &command{describe: r.describe}
	if err := cmd.takeHeaders(cl.Request().Header); err != nil {
		return err
	}
	cmd.hasKey = cmd.hasKey && !r.final
	for range guardTries {
		again, err := s.tryRevision(cl, cmd, r)
		if !again {
			return err
		}
	}
	return &problem{kind: overloaded, detail: "the schedule keeps changing", retryAfter: 1}
}

func (s *scheduleService) revisionInTurn(
	c *call, build func(*parser, []byte) (revision, error), data []byte,
) (revision, error) {
	s.work.Enter(c.namespace, len(data))
	defer s.work.Leave(c.namespace)
	return build(s.parser(c), data)
}

// tryRevision reads the schedule, changes it, and answers. again is true, and there is no answer, if the schedule has
// changed between the two.
func (s *scheduleService) tryRevision(c *call, cmd *command, r revision) (again bool, err error) {
	stored, err := s.read(c)
	if err != nil {
		return false, err
	}
	msg, own, err := s.revisionOf(c, cmd, r, stored)
	if err != nil {
		return false, err
	}
	replies, err := s.doOnce(c.Request().Context(), []*fsmpb.Command{msg})
	if err != nil {
		return false, err
	}
	result, err := replies[0].Result, replies[0].Err
	if err != nil {
		return false, err
	}
	if own && result.Code == fsmpb.Code_CODE_PRECONDITION_FAILED {
		return true, nil
	}
	if p := commandProblem(msg, result); p != nil {
		return false, p
	}
	if r.final {
		s.write(c.Response(), statusOf(result.Code), s.view(stored, stored.Revision))
		return false, nil
	}
	return false, s.answer(c, msg, result)
}

// revisionOf returns the command of a revision. own is true if the stored revision is the only condition that can fail.
func (s *scheduleService) revisionOf(
	c *call, cmd *command, r revision, stored *fsmpb.Task,
) (msg *fsmpb.Command, own bool, err error) {
	cmd.msg = fsmpb.Command{
		Namespace: scopeOf(c.namespace), Id: task.SeriesID(c.Param("id")), Answer: fsmpb.Answer_ANSWER_FULL,
	}
	s.work.Enter(c.namespace, proto.Size(stored))
	err = r.command(stored, &cmd.msg)
	s.work.Leave(c.namespace)
	if err == nil {
		err = c.checkCommand(&cmd.msg)
	}
	if err == nil {
		err = s.admitCommand(c.Request().Context(), c, &cmd.msg)
	}
	if err != nil {
		return nil, false, err
	}
	msg = proto.CloneOf(cmd.finish())
	msg.Condition, own = guarding(msg.Condition, stored)
	return msg, own, nil
}
