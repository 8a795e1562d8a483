package quotas

import (
	"context"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// levelID names this node's part of a level, as a replica of a shard or as a node: shard 0.
type levelID struct {
	shard uint32
	key   quota.LimitKey
}

// holding is a part of a level: a shard's for one leadership, or the node's with term 0.
type holding struct {
	term  uint64
	level *quota.Level
}

// level returns a shard's part of a level in a leadership, and makes it if there is none.
func (q *Quotas) level(s Replica, term uint64, key quota.LimitKey) *quota.Level {
	return q.hold(levelID{s.ID(), key}, term, quota.LevelConfig{
		Key: key, Holder: holderOf(s.ID()), Use: use{s, key}, Owner: q.carrier, Trip: q.carrier.Trip,
	})
}

// consumers returns this node's part of a level of consumers, and makes it if there is none.
func (q *Quotas) consumers(key quota.LimitKey) *quota.Level {
	return q.hold(levelID{0, key}, 0, quota.LevelConfig{
		Key: key, Holder: q.carrier.Self, Owner: q.carrier, Trip: q.carrier.Trip,
	})
}

func (q *Quotas) hold(at levelID, term uint64, cfg quota.LevelConfig) *quota.Level {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.levels[at]
	if h == nil || h.term < term {
		q.forget()
		h = &holding{term: term, level: quota.NewLevel(cfg)}
		q.levels[at] = h
	}
	return h.level
}

// maxLevels is the number of levels from which on those without claims are forgotten. They ask for ceilings again.
const maxLevels = 10_000

func (q *Quotas) forget() {
	if len(q.levels) < maxLevels {
		return
	}
	for at, h := range q.levels {
		if h.level.IsIdle() {
			delete(q.levels, at)
		}
	}
}

// use is a shard's use of a level.
type use struct {
	Replica
	key quota.LimitKey
}

func (u use) Used() int64 {
	sum := u.Use(u.key.Namespace)
	if u.key.Quota == quota.MaxBytes {
		return int64(sum.Bytes)
	}
	return int64(sum.Pending)
}

// claimed holds the claims of one call.
type claimed []claim

type claim struct {
	level *quota.Level
	n     int64
}

// claim claims n units of a level. The error is a *quota.Exceeded, or wraps task.ErrNotProposed.
func (c *claimed) claim(ctx context.Context, level *quota.Level, limit uint64, n int64) error {
	if err := level.Claim(ctx, int64(limit), n); err != nil {
		return refusal(err)
	}
	*c = append(*c, claim{level, n})
	return nil
}

func (c *claimed) release() {
	for _, h := range *c {
		h.level.Release(h.n)
	}
}

// Claim counts the tasks and bytes that commands may add at a shard's leader. It returns an error for each command that
// the quotas refuse, or nil if they refuse none, the term of the leadership that counts the claims, 0 without claims,
// and a function that ends them. The commands may be proposed in that term only: a later leadership of the same node
// does not know the claims. The caller ends the claims when no command can be applied any more. That may be after the
// user's call has ended.
func (q *Quotas) Claim(
	ctx context.Context, s Replica, cmds []*fsmpb.Command,
) (refused []error, term uint64, release func()) {
	c := claims{Quotas: q, ctx: ctx, replica: s}
	for i, cmd := range cmds {
		if err := c.add(cmd); err != nil {
			if refused == nil {
				refused = make([]error, len(cmds))
			}
			refused[i] = err
		}
	}
	if len(c.claimed) == 0 {
		return refused, c.term, func() {}
	}
	held := c.claimed // without c, which stays on the stack
	return refused, c.term, held.release
}

// claims are the claims of one call's commands.
type claims struct {
	*Quotas
	claimed
	ctx     context.Context
	replica Replica
	term    uint64 // of the leadership; 0: not known yet

	of space // of the last command
}

// space is a limited namespace in one call.
type space struct {
	looked         bool
	namespace      string // as in the commands
	limits         quota.Limits
	pending, bytes *quota.Level
	made           map[string]bool // ids of the tasks that commands of this call make
}

// add claims for one command. The leadership must answer calls, so that the applied state has all earlier tasks.
func (c *claims) add(cmd *fsmpb.Command) error {
	if !grows(cmd) {
		return nil
	}
	if !c.of.looked || cmd.Namespace != c.of.namespace {
		c.of = space{looked: true, namespace: cmd.Namespace}
		c.of.limits = c.limits(task.CanonicalNamespace(cmd.Namespace))
	}
	if c.of.limits.MaxPending == 0 && c.of.limits.MaxBytes == 0 {
		return nil
	}
	if err := c.enter(); err != nil {
		return refusal(err)
	}
	if cmd.Key != nil && c.replica.Remembers(cmd) {
		return nil
	}
	old, pending := c.replica.TaskUse(cmd.Namespace, cmd.Id)
	if n := occurrencesOf(cmd); n > 0 {
		return c.addOccurrences(n, old)
	}
	if err := c.addTask(cmd, pending); err != nil {
		return err
	}
	return c.addBytes(cmd, old)
}

// occurrencesOf returns the number of occurrences that a command makes of a schedule.
func occurrencesOf(cmd *fsmpb.Command) int64 {
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_StartOccurrence:
		return 1
	case *fsmpb.Command_Backfill:
		return int64(len(op.Backfill.ScheduledMs))
	}
	return 0
}

// addOccurrences claims for occurrences of a schedule, each of which is about as large as the schedule.
func (c *claims) addOccurrences(n int64, schedule int) error {
	if limit := c.of.limits.MaxPending; limit != 0 {
		if err := c.claim(c.ctx, c.of.pending, uint64(limit), n); err != nil {
			return err
		}
	}
	if limit := c.of.limits.MaxBytes; limit != 0 {
		return c.claim(c.ctx, c.of.bytes, uint64(limit), n*int64(schedule))
	}
	return nil
}

// enter finds the levels of the present namespace.
func (c *claims) enter() (err error) {
	if c.term == 0 {
		if c.term, err = c.replica.Lead(c.ctx); err != nil {
			return err
		}
	}
	if c.of.made != nil {
		return nil
	}
	subject := quota.Subject{Namespace: task.CanonicalNamespace(c.of.namespace)}
	c.of.made = map[string]bool{}
	c.of.pending = c.level(c.replica, c.term, quota.LimitKey{Subject: subject, Quota: quota.MaxPending})
	c.of.bytes = c.level(c.replica, c.term, quota.LimitKey{Subject: subject, Quota: quota.MaxBytes})
	return nil
}

// addTask claims for a command that may make a task, or bring a dead letter back.
func (c *claims) addTask(cmd *fsmpb.Command, pending bool) error {
	if c.of.limits.MaxPending == 0 || pending || cmd.GetPatch() != nil || c.of.made[cmd.Id] {
		return nil
	}
	if err := c.claim(c.ctx, c.of.pending, uint64(c.of.limits.MaxPending), 1); err != nil {
		return err
	}
	c.of.made[cmd.Id] = true
	return nil
}

// addBytes claims for the bytes of a command's content beyond those of the task that it changes or replaces.
func (c *claims) addBytes(cmd *fsmpb.Command, old int) error {
	if c.of.limits.MaxBytes == 0 || cmd.GetReplay() != nil {
		return nil
	}
	n := cmd.SizeVT()
	if cmd.GetPatch() == nil {
		n += task.RecordBytes - old
	}
	if n <= 0 {
		return nil
	}
	return c.claim(c.ctx, c.of.bytes, uint64(c.of.limits.MaxBytes), int64(n))
}

// grows reports whether a command may make a task, bring one back or make one larger.
func grows(cmd *fsmpb.Command) bool { return cmd.GetReplay() != nil || fsm.Grows(cmd) }
