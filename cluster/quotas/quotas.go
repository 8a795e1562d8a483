package quotas

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// Replica is this node's replica of a shard. *shard.Shard implements it.
type Replica interface {
	ID() uint32
	// Lead returns the term of this replica's leadership, once it answers calls. The error is a *task.NotLeaderError or
	// the context's.
	Lead(ctx context.Context) (term uint64, err error)
	// Use returns the use of a namespace in the applied state.
	Use(namespace string) task.NamespaceUse
	// IsPending reports whether the applied state has a task that is not done.
	IsPending(namespace, id string) bool
}

// Ask carries a message, and returns its answer.
type Ask func(ctx context.Context, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error)

// Config connects the quotas with the cluster.
type Config struct {
	Self      string // node id
	Limits    func(namespace string) quota.Limits
	KeyLimits func(id string) quota.Limits
	Nodes     func() int                          // number of nodes
	Replica   func(shard uint32) (Replica, error) // returns this node's replica
	Slots     func() map[uint32]int64             // number of slots of each shard
	Owner     Ask                                 // asks the leader of the shard that owns the subject
	// Shard asks the leader of a shard.
	Shard func(ctx context.Context, shard uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error)
	Now   func() time.Time
}

// Quotas is a node's part in the quotas. Its methods are safe for concurrent use.
type Quotas struct {
	cfg     Config
	limiter *quota.Limiter

	mu     sync.Mutex
	owners map[uint32]*owner // by shard
	levels map[levelID]*holding
}

// owner is the memory of one leadership that owns subjects.
type owner struct {
	term      uint64
	allocator *quota.Allocator
	arbiter   *quota.Arbiter
}

type levelID struct {
	shard uint32
	key   quota.LevelKey
}

// holding is a shard's part of a level, in one leadership.
type holding struct {
	term  uint64
	level *quota.Level
}

// New returns a node's part in the quotas.
func New(cfg Config) *Quotas {
	q := &Quotas{cfg: cfg, owners: map[uint32]*owner{}, levels: map[levelID]*holding{}}
	q.limiter = quota.NewLimiter(quota.Config{Node: cfg.Self, Draw: q.draw, Nodes: cfg.Nodes, Now: cfg.Now})
	return q
}

// each calls do for the namespace and the key of a call until one returns an error. An empty key is none.
func (q *Quotas) each(namespace, key string, do func(quota.Subject, quota.Limits) error) error {
	if err := do(quota.Subject{Namespace: namespace}, q.cfg.Limits(namespace)); err != nil || key == "" {
		return err
	}
	return do(quota.Subject{Key: key}, q.cfg.KeyLimits(key))
}

// Call admits a request before it is read. The error is a *quota.Exceeded or the context's.
func (q *Quotas) Call(ctx context.Context, namespace, key string) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		return q.limiter.Take(ctx, s, quota.CallsPerSecond, l.CallsPerSecond)
	})
}

// Schedule admits a call that may make a task. The errors are those of Call.
func (q *Quotas) Schedule(ctx context.Context, namespace, key string) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		return q.limiter.Take(ctx, s, quota.SchedulesPerSecond, l.SchedulesPerSecond)
	})
}

// ScheduleLines waits until n lines of a batch may make tasks. The error is the context's.
func (q *Quotas) ScheduleLines(ctx context.Context, namespace, key string, n int) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error {
		return q.limiter.Wait(ctx, s, quota.SchedulesPerSecond, l.SchedulesPerSecond, n)
	})
}

// Payload returns a *quota.Exceeded for a payload over the limit.
func (q *Quotas) Payload(namespace, key string, bytes int64) error {
	return q.each(namespace, key, func(s quota.Subject, l quota.Limits) error { return l.CheckPayload(s, bytes) })
}

func (q *Quotas) draw(ctx context.Context, d quota.Draw) (quota.Tokens, error) {
	reply, err := q.cfg.Owner(ctx, &clusterpb.QuotaCall{
		Subject: subjectMessage(d.Subject), Quota: uint32(d.Quota),
		Op: &clusterpb.QuotaCall_Draw{Draw: &clusterpb.DrawCall{
			Node: d.Node, PerSecond: d.PerSecond, Want: uint32(d.Want), Spent: uint32(d.Spent),
		}},
	})
	return quota.Tokens{
		N: int(reply.GetTokens()), RetryAfter: time.Duration(reply.GetRetryAfterUs()) * time.Microsecond,
	}, err
}

func subjectMessage(s quota.Subject) *clusterpb.QuotaSubject {
	return &clusterpb.QuotaSubject{Namespace: s.Namespace, Key: s.Key}
}

// Answer answers a message as the leader of a shard. The error is a *task.NotLeaderError if this node does not lead.
func (q *Quotas) Answer(ctx context.Context, id uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	s, err := q.cfg.Replica(id)
	if err != nil {
		return nil, err
	}
	term, err := s.Lead(ctx)
	if err != nil {
		return nil, err
	}
	key := quota.LevelKey{
		Subject: quota.Subject{Namespace: call.GetSubject().GetNamespace(), Key: call.GetSubject().GetKey()},
		Quota:   quota.Quota(call.Quota),
	}
	switch op := call.Op.(type) {
	case *clusterpb.QuotaCall_Draw:
		return q.answerDraw(q.owner(id, term), key, op.Draw), nil
	case *clusterpb.QuotaCall_Divide:
		used, err := q.owner(id, term).arbiter.Divide(ctx, quota.Ask{
			Key: key, Holder: op.Divide.Holder, Limit: op.Divide.Limit, Want: op.Divide.Want,
		})
		if err == quota.ErrUnsure { //nolint:errorlint // Divide returns it unwrapped
			return &clusterpb.QuotaReply{Unsure: true}, nil
		}
		return &clusterpb.QuotaReply{Used: used}, err
	case *clusterpb.QuotaCall_Trim:
		held, ok := q.level(s, term, key).Trim(quota.Round{Term: op.Trim.Term, Number: op.Trim.Number})
		return &clusterpb.QuotaReply{Used: held, Refused: !ok}, nil
	case *clusterpb.QuotaCall_Raise:
		r := quota.Round{Term: op.Raise.Term, Number: op.Raise.Number}
		q.level(s, term, key).Raise(r, op.Raise.Limit, op.Raise.Ceiling)
		return &clusterpb.QuotaReply{}, nil
	}
	return nil, fmt.Errorf("%w: a quota's message that this build does not know", task.ErrNotProposed)
}

func (q *Quotas) answerDraw(o *owner, key quota.LevelKey, d *clusterpb.DrawCall) *clusterpb.QuotaReply {
	got := o.allocator.Draw(quota.Draw{
		Subject: key.Subject, Quota: key.Quota, Node: d.Node, PerSecond: d.PerSecond, Want: int(d.Want), Spent: int(d.Spent),
	})
	return &clusterpb.QuotaReply{Tokens: uint32(got.N), RetryAfterUs: got.RetryAfter.Microseconds()}
}

// owner returns the memory of a leadership as an owner, and makes it if there is none.
func (q *Quotas) owner(id uint32, term uint64) *owner {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[id]
	if o == nil || o.term != term {
		o = &owner{term: term, allocator: quota.NewAllocator(q.cfg.Now), arbiter: quota.NewArbiter(q.arbiterConfig(term))}
		q.owners[id] = o
	}
	return o
}

func (q *Quotas) arbiterConfig(term uint64) quota.ArbiterConfig {
	return quota.ArbiterConfig{
		Term: term, Now: q.cfg.Now, Trim: q.trim, Raise: q.raise,
		Holders: func(quota.LevelKey) (all []quota.Holder) {
			for id, slots := range q.cfg.Slots() {
				all = append(all, quota.Holder{ID: holderOf(id), Weight: slots})
			}
			return all
		},
	}
}

func holderOf(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }

func (q *Quotas) trim(ctx context.Context, holder string, key quota.LevelKey, r quota.Round) (int64, error) {
	reply, err := q.tell(ctx, holder, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Trim{Trim: &clusterpb.TrimCall{Term: r.Term, Number: r.Number}},
	})
	if err == nil && reply.Refused {
		err = fmt.Errorf("shard %s has a later round", holder)
	}
	return reply.GetUsed(), err
}

func (q *Quotas) raise(
	ctx context.Context, holder string, key quota.LevelKey, r quota.Round, limit, ceiling int64,
) error {
	_, err := q.tell(ctx, holder, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Raise{Raise: &clusterpb.RaiseCall{
			Term: r.Term, Number: r.Number, Limit: limit, Ceiling: ceiling,
		}},
	})
	return err
}

func (q *Quotas) tell(ctx context.Context, holder string, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	id, err := strconv.ParseUint(holder, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no shard: %w", holder, err)
	}
	return q.cfg.Shard(ctx, uint32(id), call)
}

// level returns a shard's part of a level in a leadership, and makes it if there is none.
func (q *Quotas) level(s Replica, term uint64, key quota.LevelKey) *quota.Level {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := levelID{s.ID(), key}
	h := q.levels[at]
	if h == nil || h.term < term {
		q.forget()
		h = &holding{term: term, level: quota.NewLevel(quota.LevelConfig{
			Key: key, Holder: holderOf(s.ID()), Now: q.cfg.Now, Ask: q.divide,
			Used: func() int64 { return used(s, key) },
		})}
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

func used(s Replica, key quota.LevelKey) int64 {
	use := s.Use(key.Namespace)
	if key.Quota == quota.MaxBytes {
		return int64(use.Bytes)
	}
	return int64(use.Pending)
}

func (q *Quotas) divide(ctx context.Context, ask quota.Ask) (int64, error) {
	reply, err := q.cfg.Owner(ctx, &clusterpb.QuotaCall{
		Subject: subjectMessage(ask.Key.Subject), Quota: uint32(ask.Key.Quota),
		Op: &clusterpb.QuotaCall_Divide{Divide: &clusterpb.DivideCall{
			Holder: ask.Holder, Limit: ask.Limit, Want: ask.Want,
		}},
	})
	if err == nil && reply.Unsure {
		err = quota.ErrUnsure
	}
	return reply.GetUsed(), err
}

// Claim counts the tasks and bytes that commands may add at a shard's leader. It returns an error for each command that
// the quotas refuse, nil if they refuse none, and a function that ends the claims, for the time after the commands.
func (q *Quotas) Claim(ctx context.Context, s Replica, cmds []*fsmpb.Command) (refused []error, release func()) {
	c := claims{Quotas: q, ctx: ctx, replica: s}
	for i, cmd := range cmds {
		if err := c.add(cmd); err != nil {
			if refused == nil {
				refused = make([]error, len(cmds))
			}
			refused[i] = err
		}
	}
	return refused, c.release
}

// claims are the claims of one call's commands.
type claims struct {
	*Quotas
	ctx     context.Context
	replica Replica

	namespace string // of the last command; limits are of it
	looked    bool
	limits    quota.Limits
	term      uint64
	held      []claim
}

type claim struct {
	level *quota.Level
	n     int64
}

// add claims for one command. The leadership must answer calls, so that the applied state has all earlier tasks.
func (c *claims) add(cmd *fsmpb.Command) error {
	if !makesTask(cmd) {
		return nil
	}
	if !c.looked || cmd.Namespace != c.namespace {
		c.namespace, c.looked = cmd.Namespace, true
		c.limits = c.cfg.Limits(task.CanonicalNamespace(cmd.Namespace))
	}
	if c.limits.MaxPending == 0 && c.limits.MaxBytes == 0 {
		return nil
	}
	var err error
	if c.term, err = c.replica.Lead(c.ctx); err != nil {
		return refusal(err)
	}
	if c.limits.MaxPending > 0 && !c.replica.IsPending(cmd.Namespace, cmd.Id) {
		if err = c.claim(quota.MaxPending, c.limits.MaxPending, 1); err != nil {
			return err
		}
	}
	if c.limits.MaxBytes > 0 {
		return c.claim(quota.MaxBytes, c.limits.MaxBytes, int64(cmd.SizeVT()+task.RecordBytes))
	}
	return nil
}

func (c *claims) claim(of quota.Quota, limit uint64, n int64) error {
	key := quota.LevelKey{Subject: quota.Subject{Namespace: task.CanonicalNamespace(c.namespace)}, Quota: of}
	level := c.level(c.replica, c.term, key)
	if err := level.Claim(c.ctx, int64(limit), n); err != nil {
		return refusal(err)
	}
	c.held = append(c.held, claim{level, n})
	return nil
}

func (c *claims) release() {
	for _, h := range c.held {
		h.level.Release(h.n)
	}
}

// makesTask reports whether a command may make a task or change its content.
func makesTask(cmd *fsmpb.Command) bool {
	switch op := cmd.Op.(type) {
	case *fsmpb.Command_Schedule:
		return true
	case *fsmpb.Command_Touch:
		return op.Touch.GetOrSchedule() != nil
	}
	return false
}
