package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Config gives access to the shards, and to this node's knowledge of them.
type Config struct {
	Self    string  // node id
	Control Control // has the slots and the placement of the shards
	Nodes   Nodes
	Leaders *calls.Beliefs

	Patience   time.Duration // limit of a call whose context has no deadline; 0: 10 s
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Control is the control group.
type Control interface {
	State() *clusterpb.ControlState
}

// Nodes are the nodes of the cluster.
type Nodes interface {
	// At returns a node to call, which may be this one.
	At(node string) calls.Node
	// Alive reports whether a node seems alive.
	Alive(node string) bool
}

// Router takes calls about any task to the shard that holds the task.
type Router struct {
	cfg       Config
	metrics   *metrics
	placement calls.Placement

	mu  sync.Mutex
	of  *clusterpb.ControlState // state that now was made from
	now *layout
}

// New returns a Router, which needs no closing.
func New(cfg Config) *Router {
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	placement := control.Placement{Control: cfg.Control, Nodes: cfg.Nodes}
	return &Router{cfg: cfg, metrics: newMetrics(cfg.Registerer), placement: placement}
}

// layout is the slot map of one control state, ready for lookups.
type layout struct {
	slots [task.Slots]*clusterpb.SlotRange
}

// layout returns the layout of the present state, or nil while the cluster has no slot map.
func (r *Router) layout() *layout {
	state := r.cfg.Control.State()
	if len(state.Slots) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of != state {
		l := &layout{}
		for _, s := range state.Slots {
			for slot := s.First; slot < s.End && slot < task.Slots; slot++ {
				l.slots[slot] = s
			}
		}
		r.of, r.now = state, l
	}
	return r.now
}

var errNoMap = fmt.Errorf("%w: this node does not know the shards yet", task.ErrNotProposed)

// patient gives a call without a deadline the default one.
func (r *Router) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.cfg.Patience)
}

// Do makes the shards' leaders commit commands, each about a task, and returns a reply to each, in order. Commands
// about one id are proposed in their order; the shards are asked side by side. All are refused, with a
// *control.BehindError, if a node of the cluster cannot read one of them. The commands belong to the router until Do
// returns, and stay the router's after task.ErrUnknown.
func (r *Router) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	l := r.layout()
	if l == nil {
		return calls.Refuse(len(cmds), errNoMap)
	}
	// The leader may be a node that cannot read one of the commands, and could write it to its log and never apply it.
	version := uint32(fsm.FirstVersion)
	for _, cmd := range cmds {
		version = max(version, fsm.VersionOf(cmd))
	}
	if err := control.MayWrite(r.cfg.Control.State(), version); err != nil {
		return calls.Refuse(len(cmds), err)
	}
	replies := make([]task.Reply, len(cmds))
	parts := split(cmds, func(i int) (uint32, int) { return l.slots[task.Slot(cmds[i].Namespace, cmds[i].Id)].Shard, i })
	if len(parts) == 1 {
		r.doShard(ctx, parts[0], replies)
	} else {
		r.doShards(ctx, parts, replies)
	}
	return replies
}

// doShards carries out the commands of several shards side by side.
func (r *Router) doShards(ctx context.Context, parts []part, replies []task.Reply) {
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { r.doShard(ctx, p, replies) })
	}
	wg.Wait()
}

// part is the commands of one shard, and the indexes of their replies.
type part struct {
	shard uint32
	cmds  []*fsmpb.Command
	at    []int
}

// split returns the parts of commands, in the order of their first commands. place returns the shard of a command and
// the index of its reply.
func split(cmds []*fsmpb.Command, place func(i int) (shard uint32, at int)) []part {
	var parts []part
	byShard := make(map[uint32]int) // index of the shard's part
	for i, c := range cmds {
		shard, at := place(i)
		n, ok := byShard[shard]
		if !ok {
			n = len(parts)
			byShard[shard] = n
			parts = append(parts, part{shard: shard})
		}
		parts[n].cmds, parts[n].at = append(parts[n].cmds, c), append(parts[n].at, at)
	}
	return parts
}

// pieceBytes is the size of commands up to which one call to a shard is filled; the last command may exceed it. A
// larger part is sent piece after piece.
const pieceBytes = 4 << 20

func (r *Router) doShard(ctx context.Context, p part, replies []task.Reply) {
	for len(p.cmds) > 0 {
		n := 1
		for bytes := 0; n < len(p.cmds); n++ {
			if bytes += p.cmds[n-1].SizeVT(); bytes >= pieceBytes {
				break
			}
		}
		r.doPiece(ctx, part{shard: p.shard, cmds: p.cmds[:n], at: p.at[:n]}, replies, chase{})
		// The pieces after a refusal for lack of room are refused, too: they must not overtake the refused commands if
		// there is room meanwhile.
		if last := replies[p.at[n-1]].Err; errors.Is(last, task.ErrOverloaded) {
			n, p = 0, part{shard: p.shard, at: p.at[n:]}
			for _, at := range p.at {
				replies[at].Err = last
			}
		}
		p.cmds, p.at = p.cmds[n:], p.at[n:]
	}
}

// doPiece tries until every command has a final answer.
func (r *Router) doPiece(ctx context.Context, p part, replies []task.Reply, way chase) {
	t := r.newTry(p.shard)
	for {
		var answers []task.Reply
		if n := t.at(t.Next()); n != nil {
			answers = n.Do(ctx, p.shard, p.cmds)
		} else {
			answers = calls.Refuse(len(p.cmds), &task.NotLeaderError{Shard: p.shard})
		}
		failed := false
		for i, a := range answers {
			replies[p.at[i]] = a
			failed = failed || a.Err != nil
		}
		if !failed {
			t.Found()
			return
		}
		var why error
		if p, why = unsettled(p, answers); len(p.cmds) == 0 {
			if slices.ContainsFunc(answers, func(a task.Reply) bool { return a.Err == nil }) {
				t.Found()
			}
			return
		}
		if slices.ContainsFunc(p.at, func(at int) bool { return movedIn(replies[at].Err) != nil }) {
			t.Found()
			r.doMoved(ctx, p, replies, way)
			return
		}
		if err := t.again(ctx, why); err != nil {
			for _, at := range p.at {
				replies[at].Err = err
			}
			return
		}
	}
}
