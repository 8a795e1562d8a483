package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/rights"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// doPatiently carries out commands. It repeats those that were refused for overload, with a growing pause, until none
// is refused, the client is gone, or its right to the call is lost. Then commands under way have the time lastWords.
// Backend's rules for such refusals keep the order about one id, and allow a command to be passed twice.
func (s *core) doPatiently(ctx context.Context, right *rights.Right, cmds []*fsmpb.Command) ([]task.Reply, error) {
	ctx, cancel := right.Within(ctx, lastWords)
	defer cancel()
	replies, err := s.doOnce(ctx, cmds)
	for pause := firstPause; err == nil; pause = min(2*pause, lastPause) {
		refused := overloadedAmong(replies)
		if len(refused) == 0 {
			return replies, nil
		}
		s.metrics.retries.Inc()
		err = s.waitOut(ctx, right, pause/2+rand.N(pause))
		switch {
		case right.Refusal() != nil:
			return replies, nil // some are still refusals
		case err == nil:
			err = s.again(ctx, cmds, replies, refused)
		}
	}
	return nil, err
}

// waitOut waits until the time is over, the context ends, or the right is lost.
func (s *core) waitOut(ctx context.Context, right *rights.Right, d time.Duration) error {
	ctx, cancel := right.Within(ctx, 0)
	defer cancel()
	if !wait.For(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// doOnce carries out commands within the time for a call. It does not call the backend for an empty list.
func (s *core) doOnce(ctx context.Context, cmds []*fsmpb.Command) ([]task.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.bounds.RequestTimeout)
	defer cancel()
	replies := s.tasks.Do(ctx, cmds)
	if len(replies) != len(cmds) {
		return nil, fmt.Errorf("the backend gave %d replies to %d commands", len(replies), len(cmds))
	}
	return replies, nil
}

func overloadedAmong(replies []task.Reply) []int {
	var refused []int
	for i, r := range replies {
		if r.Err != nil && errors.Is(r.Err, task.ErrOverloaded) {
			refused = append(refused, i)
		}
	}
	return refused
}

// again carries out the refused commands and replaces their replies.
func (s *core) again(ctx context.Context, cmds []*fsmpb.Command, replies []task.Reply, refused []int) error {
	part := make([]*fsmpb.Command, len(refused))
	for i, at := range refused {
		part[i] = cmds[at]
	}
	fresh, err := s.doOnce(ctx, part)
	if err != nil {
		return err
	}
	for i, at := range refused {
		replies[at] = fresh[i]
	}
	return nil
}

// doer is doOnce, or doPatiently for the right of the call.
type doer func(ctx context.Context, s *core, c *call, cmds []*fsmpb.Command) ([]task.Reply, error)

func once(ctx context.Context, s *core, _ *call, cmds []*fsmpb.Command) ([]task.Reply, error) {
	return s.doOnce(ctx, cmds)
}

func patiently(ctx context.Context, s *core, c *call, cmds []*fsmpb.Command) ([]task.Reply, error) {
	return s.doPatiently(ctx, c.right, cmds)
}

// guard carries out commands that depend on the state of their tasks, which only the shards know: those of a caller
// whose grants reach only some queues, and those that may lead kept credentials to another host. So the guard reads the
// task first, refuses the command if it must, and then makes the revision that it has read a condition of the command.
// A task that changes between the two is read again.
type guard struct {
	s    *core
	call *call
	do   doer
}

const (
	guardTries = 8  // for one command whose task keeps changing
	guardReads = 16 // at the same time
)

// doFor carries out commands of a call, with a guard if one is needed.
func (s *core) doFor(ctx context.Context, c *call, cmds []*fsmpb.Command, do doer) ([]task.Reply, error) {
	if !c.limited && !slices.ContainsFunc(cmds, mayMove) {
		return do(ctx, s, c, cmds)
	}
	return (&guard{s, c, do}).run(ctx, cmds)
}

// attempt is a command that the guard has not finished.
type attempt struct {
	at    int            // place of the command and its reply
	cmd   *fsmpb.Command // as the caller wrote it
	tries int

	refused *problem
	sent    *fsmpb.Command // with the guard's condition; nil if refused
	own     bool           // the guard's condition is all that could fail
}

// run carries out commands in rounds. A round has one command about each id, so that each is guarded by the state that
// the commands before it have left.
func (g *guard) run(ctx context.Context, cmds []*fsmpb.Command) ([]task.Reply, error) {
	replies, todo := make([]task.Reply, len(cmds)), make([]*attempt, len(cmds))
	for i, cmd := range cmds {
		todo[i] = &attempt{at: i, cmd: cmd}
	}
	for len(todo) > 0 {
		now, later := firstOfEach(todo)
		again, err := g.round(ctx, now, replies)
		if err != nil {
			return nil, err
		}
		todo = append(again, later...)
	}
	return replies, nil
}

// firstOfEach splits attempts into the first one about each id, and the others in order.
func firstOfEach(todo []*attempt) (first, others []*attempt) {
	seen := map[string]bool{}
	for _, a := range todo {
		if seen[a.cmd.Id] {
			others = append(others, a)
		} else {
			first = append(first, a)
		}
		seen[a.cmd.Id] = true
	}
	return first, others
}

// round carries out one command about each id, and returns those whose tasks changed meanwhile.
func (g *guard) round(ctx context.Context, now []*attempt, replies []task.Reply) (again []*attempt, err error) {
	g.readAll(ctx, now)
	var cmds []*fsmpb.Command
	for _, a := range now {
		if a.refused == nil {
			cmds = append(cmds, a.sent)
		}
	}
	given, err := g.do(ctx, g.s, g.call, cmds)
	if err != nil {
		return nil, err
	}
	for _, a := range now {
		if a.refused != nil {
			replies[a.at] = task.Reply{Err: a.refused}
			continue
		}
		reply := given[0]
		given = given[1:]
		if a.overtaken(reply) {
			if a.tries++; a.tries < guardTries {
				again = append(again, a)
				continue
			}
			reply = task.Reply{Err: &problem{kind: overloaded, detail: "the task keeps changing", retryAfter: 1}}
		}
		replies[a.at] = g.visible(reply)
	}
	return again, nil
}

func (g *guard) readAll(ctx context.Context, now []*attempt) {
	ctx, cancel := context.WithTimeout(ctx, g.s.bounds.RequestTimeout)
	defer cancel()
	var reads errgroup.Group
	reads.SetLimit(guardReads)
	for _, a := range now {
		reads.Go(func() error {
			g.read(ctx, a)
			return nil
		})
	}
	_ = reads.Wait() // there are no errors
}

// read reads the task of a command, and refuses the command or makes the guard's condition a part of it. A command
// whose task cannot be read is refused, since it was not sent.
func (g *guard) read(ctx context.Context, a *attempt) {
	a.refused, a.sent, a.own = nil, proto.CloneOf(a.cmd), true
	if g.everyQueue(grantedID(a.cmd.Id)) && !mayMove(a.cmd) {
		a.own = false
		return
	}
	present, err := g.s.tasks.Get(ctx, g.call.namespace, a.cmd.Id, false)
	switch {
	case err != nil:
		a.refused = readProblem(err)
		return
	case present != nil && !g.call.reaches(present):
		a.refused = g.refusal(a.cmd)
		return
	}
	if err := checkMovedTask(a.cmd, present.GetSpec().GetTarget()); err != nil {
		a.refused = problemOf(err)
		return
	}
	a.sent.Condition, a.own = guarding(a.cmd.Condition, present)
}

// mayMove reports whether a command could lead credentials that its task keeps to another host.
func mayMove(cmd *fsmpb.Command) bool {
	return cmd.GetPatch().GetSet().GetTarget().GetUrl() != "" || task.HasMasked(givenSpec(cmd).GetTarget())
}

// checkMovedTask refuses a command that leads credentials which its task keeps to another host.
func checkMovedTask(cmd *fsmpb.Command, stored *fsmpb.Target) error {
	if !mayMove(cmd) {
		return nil
	}
	if spec := givenSpec(cmd); spec != nil {
		err := checkMoved(spec.Target, stored)
		if cmd.GetSetSeries() != nil {
			err = within("task.", err)
		}
		return err
	}
	_, err := mergeSpec(&fsmpb.Spec{Target: stored}, cmd.GetPatch())
	return err
}

// mergeSpec merges a patch into a stored spec. It refuses a patch that leads kept credentials to another host.
func mergeSpec(stored *fsmpb.Spec, patch *fsmpb.Patch) (*fsmpb.Spec, error) {
	merged, given := task.MergeSpec(stored, patch), map[string]bool{}
	for _, h := range patch.GetSet().GetTarget().GetHeaders() {
		given[h.Name] = h.GetValue() != task.Masked
	}
	masked := proto.CloneOf(merged.Target)
	for _, h := range masked.GetHeaders() {
		if task.IsCredential(h.Name) && !given[h.Name] {
			h.Value = task.Masked
		}
	}
	return merged, checkMoved(masked, stored.Target)
}

// checkMoved refuses a target with masked credentials that leads to another host than the stored one. Otherwise a
// caller who may change the target could have the stored credentials sent to a host of its own, and read them there.
func checkMoved(next, stored *fsmpb.Target) error {
	if stored == nil || !task.HasMasked(next) {
		return nil
	}
	to, err := task.Destination(next.Url)
	if err != nil {
		return nil // the check of the whole refuses it
	}
	if from, err := task.Destination(stored.Url); err == nil && from == to {
		return nil
	}
	for _, h := range next.Headers {
		if h.Value == task.Masked && task.IsCredential(h.Name) {
			return &task.FieldError{Field: "target.headers." + h.Name, Detail: "is kept, and target.url leads to another " +
				"host: give its value, or remove it"}
		}
	}
	return nil
}

// everyQueue reports whether the caller's grants reach an id in every queue.
func (g *guard) everyQueue(id string) bool {
	return g.call.caller.Allows(access.Need{Role: g.call.need.role, Namespace: g.call.namespace, ID: id})
}

// refusal refuses a command about a task of a queue that the caller's grants do not reach. For most calls there is no
// such task. A schedule cannot take the id.
func (g *guard) refusal(cmd *fsmpb.Command) *problem {
	if cmd.GetSchedule() != nil || cmd.GetSetSeries() != nil {
		return outside("id", "belongs to one of a queue that your grants do not reach")
	}
	return missing(cmd.Id)
}

// guarding joins the caller's condition with the guard's: that the task is still the present one, or that there is
// still none. own is false if the caller's condition does not hold now. Then the joined one never holds either, and the
// command is still sent, since it may repeat a remembered call.
func guarding(condition *fsmpb.Condition, present *fsmpb.Task) (joined *fsmpb.Condition, own bool) {
	if present == nil {
		return &fsmpb.Condition{Absent: true, Present: condition.GetPresent(), Revisions: condition.GetRevisions()},
			!condition.GetPresent() && len(condition.GetRevisions()) == 0
	}
	own = !condition.GetAbsent()
	if listed := condition.GetRevisions(); len(listed) > 0 {
		own = own && slices.Contains(listed, present.Revision)
	}
	if !own {
		return condition, false
	}
	return &fsmpb.Condition{Present: true, Revisions: []uint64{present.Revision}}, true
}

// overtaken reports whether a command has failed because its task has changed since the guard read it.
func (a *attempt) overtaken(reply task.Reply) bool {
	return a.own && reply.Err == nil && reply.Result.Code == fsmpb.Code_CODE_PRECONDITION_FAILED
}

// visible returns a reply as the caller may see it: without a task of a queue that its grants do not reach.
func (g *guard) visible(reply task.Reply) task.Reply {
	if t := reply.Result.GetTask(); t.GetSpec() != nil && !g.call.reaches(t) {
		return task.Reply{Err: missing(t.Id)}
	}
	return reply
}

// builder makes a command from a body.
type builder func(*parser, []byte) (*command, error)

// changeRecord is change for the record with an id, of a task or a schedule. write answers.
func (s *core) changeRecord(c echo.Context, id string, answer fsmpb.Answer, types []string, build builder,
	write func(*call, *fsmpb.Command, *fsmpb.Result) error) error {
	cl, r := callOf(c), c.Request()
	body, err := bind(c, s.bounds.BodyBytes, types...)
	defer body.release()
	if err != nil {
		return err
	}
	cmd, err := s.buildInTurn(cl, build, body.data)
	if err != nil {
		return err
	}
	if err := cmd.takeHeaders(r.Header); err != nil {
		return err
	}
	cmd.msg.Namespace, cmd.msg.Id, cmd.msg.Answer = scopeOf(cl.namespace), id, answer
	if cmd.schedule.msg.GeneratedId {
		cmd.msg.Id = generatedID(cmd.msg.Namespace, cmd.keyText, cmd.hasKey)
	}
	if err := cl.checkCommand(&cmd.msg); err != nil {
		return err
	}
	if err := s.admitTouch(r.Context(), cl, &cmd.msg); err != nil {
		return err
	}
	if err := s.admitCommand(r.Context(), cl, &cmd.msg); err != nil {
		return err
	}
	result, err := s.commit(cl, cmd.finish())
	if err != nil {
		return err
	}
	return write(cl, &cmd.msg, result)
}

// buildInTurn parses a body as a piece of work of the call's namespace.
func (s *core) buildInTurn(c *call, build builder, data []byte) (*command, error) {
	s.work.Enter(c.namespace, len(data))
	defer s.work.Leave(c.namespace)
	return build(s.parser(c), data)
}

// commit carries out one command. problemOf turns its error into a problem.
func (s *core) commit(c *call, cmd *fsmpb.Command) (*fsmpb.Result, error) {
	replies, err := s.doFor(c.Request().Context(), c, []*fsmpb.Command{cmd}, once)
	if err != nil {
		return nil, err
	}
	result, err := replies[0].Result, replies[0].Err
	if err != nil {
		return nil, err
	}
	if p := commandProblem(cmd, result); p != nil {
		return nil, p
	}
	return result, nil
}

// commandProblem returns the problem for the result of a command, or nil for a success.
func commandProblem(cmd *fsmpb.Command, result *fsmpb.Result) *problem {
	if _, ok := task.SplitSeries(cmd.Id); ok {
		return scheduleProblem(cmd, result)
	}
	return resultProblem(result)
}
