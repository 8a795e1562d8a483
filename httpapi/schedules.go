package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

func (s *Server) putSchedule(c echo.Context) error {
	id := c.Param("id")
	return s.changeSchedule(c, s.answerSchedule, func(p *parser, data []byte) (*order, error) {
		set, err := p.newSeries(data, id)
		return &order{cmd: fsmpb.Command{Op: &fsmpb.Command_SetSeries{SetSeries: set}}}, err
	})
}

func (s *Server) pauseSchedule(c echo.Context) error { return s.holdSchedule(c, true) }

func (s *Server) resumeSchedule(c echo.Context) error { return s.holdSchedule(c, false) }

// holdSchedule pauses or resumes a schedule. The body may give a note.
func (s *Server) holdSchedule(c echo.Context, paused bool) error {
	return s.changeSchedule(c, s.answerSchedule, func(_ *parser, data []byte) (*order, error) {
		text, err := pauseNote(data)
		op := &fsmpb.PauseSeries{Paused: paused, Note: text}
		return &order{cmd: fsmpb.Command{Op: &fsmpb.Command_PauseSeries{PauseSeries: op}}}, err
	})
}

func (s *Server) fireSchedule(c echo.Context) error {
	return s.changeSchedule(c, s.answerFire, func(p *parser, data []byte) (*order, error) {
		_, err := p.parseOptional(data, &contract.EmptyObject)
		op := new(fsmpb.StartOccurrence)
		return &order{cmd: fsmpb.Command{Op: &fsmpb.Command_StartOccurrence{StartOccurrence: op}}}, err
	})
}

func (s *Server) skipOccurrence(c echo.Context) error {
	return s.changeSchedule(c, s.answerSchedule, func(p *parser, data []byte) (*order, error) {
		_, err := p.parseOptional(data, &contract.EmptyObject)
		op := new(fsmpb.SkipOccurrence)
		return &order{cmd: fsmpb.Command{Op: &fsmpb.Command_SkipOccurrence{SkipOccurrence: op}}}, err
	})
}

// changeSchedule runs a call whose command does not depend on the stored schedule.
func (s *Server) changeSchedule(c echo.Context, write func(*call, *fsmpb.Command, *fsmpb.Result) error,
	build builder) error {
	id := task.SeriesID(c.Param("id"))
	return s.changeRecord(c, id, fsmpb.Answer_ANSWER_FULL, []string{jsonType}, build, write)
}

// patchSchedule merges a merge patch (RFC 7396) into the stored schedule.
func (s *Server) patchSchedule(c echo.Context) error {
	return s.revise(c, []string{jsonType, mergeType}, func(p *parser, data []byte) (revision, error) {
		text, err := canonical(data)
		var payload []byte // byte for byte
		return revision{
			command: func(stored *fsmpb.Task, cmd *fsmpb.Command) error {
				d, err := p.patchSeries(data, stored)
				cmd.Op, payload = &fsmpb.Command_SetSeries{SetSeries: d.set}, d.patched
				return err
			},
			meaning: func() []byte { return slices.Concat([]byte("patch schedule\x00"), text, []byte{0}, payload) },
		}, err
	})
}

// backfill begins the occurrences of the stored rule in a range of the past.
func (s *Server) backfill(c echo.Context) error {
	return s.revise(c, []string{jsonType}, func(p *parser, data []byte) (revision, error) {
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
			meaning: func() []byte { return fmt.Appendf(nil, "backfill %d %d", b.from, b.to) },
		}, err
	})
}

// deleteSchedule ends a schedule, and answers with the schedule as it was. Its occurrences stay. The call keeps no
// idempotency key, since nothing of the schedule remains that could remember it.
func (s *Server) deleteSchedule(c echo.Context) error {
	return s.revise(c, []string{jsonType}, func(p *parser, data []byte) (revision, error) {
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

func (s *Server) getSchedule(c echo.Context) error {
	t, err := s.readSchedule(c)
	if err != nil {
		return err
	}
	s.writeSchedule(c.Response(), http.StatusOK, s.scheduleView(t, t.Revision))
	return nil
}

// readSchedule reads the schedule in the path, if the caller's grants reach it.
func (s *Server) readSchedule(c echo.Context) (*fsmpb.Task, error) {
	stale, _ := isStale(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	cl, id := callOf(c), task.SeriesID(c.Param("id"))
	t, err := s.cfg.Backend.Get(ctx, cl.namespace, id, stale)
	switch {
	case err != nil:
		return nil, s.readFailed(err)
	case t.GetSeries() == nil || !cl.reaches(t):
		return nil, missing(id)
	}
	return t, nil
}

func (s *Server) listSchedules(c echo.Context) error {
	return s.listRecords(c, listed{`{"schedules":[`, listsSchedules, func(b []byte, t *fsmpb.Task, payload bool) []byte {
		v := s.scheduleView(t, t.Revision)
		v.payload = payload
		return v.append(b)
	}})
}

// occurrences answers the coming occurrences of a schedule, and its last ones.
func (s *Server) occurrences(c echo.Context) error {
	next, err := occurrenceCount(c, "next")
	if err != nil {
		return err
	}
	last, err := occurrenceCount(c, "last")
	if err != nil {
		return err
	}
	t, err := s.readSchedule(c)
	if err != nil {
		return err
	}
	cl := callOf(c)
	s.work.Enter(cl.namespace, viewBytes*(next+last))
	defer s.work.Leave()
	coming, err := comingOf(t.Series, s.calendarOf(cl.namespace, t.Series.Repeat.GetCalendar()), next)
	if err != nil {
		return err
	}
	s.writeOccurrences(c.Response(), coming, lastOf(t.Series, last))
	return nil
}
