package httpapi

import (
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// revision is a change to a schedule that depends on the stored one.
type revision struct {
	// command sets the command's op. It may run more than once, each time with what is stored then, and must not write to
	// stored.
	command func(stored *fsmpb.Task, cmd *fsmpb.Command) error
	meaning func() []byte // describes the call for its key, after command; see order
	final   bool          // the change ends the schedule: the call keeps no key, and answers with what was stored
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
	o := &order{meaning: r.meaning}
	if err := o.takeHeaders(cl.Request().Header); err != nil {
		return err
	}
	o.keyed = o.keyed && !r.final
	for range guardTries {
		again, err := s.tryRevision(cl, o, r)
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
	defer s.work.Leave()
	return build(s.parser(c), data)
}

// tryRevision reads the schedule, changes it, and answers. again is true, and there is no answer, if the schedule has
// changed between the two.
func (s *scheduleService) tryRevision(c *call, o *order, r revision) (again bool, err error) {
	stored, err := s.read(c)
	if err != nil {
		return false, err
	}
	cmd, own, err := s.revisionOf(c, o, r, stored)
	if err != nil {
		return false, err
	}
	replies, err := s.doOnce(c.Request().Context(), []*fsmpb.Command{cmd})
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
	if p := commandProblem(cmd, result); p != nil {
		return false, p
	}
	if r.final {
		s.write(c.Response(), statusOf(result.Code), s.view(stored, stored.Revision))
		return false, nil
	}
	return false, s.answer(c, cmd, result)
}

// revisionOf returns the command of a revision. own is true if the stored revision is the only condition that can fail.
func (s *scheduleService) revisionOf(
	c *call, o *order, r revision, stored *fsmpb.Task,
) (cmd *fsmpb.Command, own bool, err error) {
	o.cmd = fsmpb.Command{
		Namespace: scopeOf(c.namespace), Id: task.SeriesID(c.Param("id")), Answer: fsmpb.Answer_ANSWER_FULL,
	}
	s.work.Enter(c.namespace, proto.Size(stored))
	err = r.command(stored, &o.cmd)
	s.work.Leave()
	if err == nil {
		err = c.checkCommand(&o.cmd)
	}
	if err == nil {
		err = s.admitCommand(c.Request().Context(), c, &o.cmd)
	}
	if err != nil {
		return nil, false, err
	}
	cmd = proto.CloneOf(o.finish())
	cmd.Condition, own = guarding(cmd.Condition, stored)
	return cmd, own, nil
}
