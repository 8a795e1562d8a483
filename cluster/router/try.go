package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// try is one call's search for its leader.
type try struct {
	r       *Router
	shard   uint32
	count   int
	asked   string          // whom the last time
	hint    string          // who leads, as the one last asked said; empty: it did not say
	hinted  bool            // the last try followed a hint: another one in a row waits first
	changed <-chan struct{} // closed when the belief about the leader is newer than the last try
}

func (r *Router) newTry(shard uint32) *try { return &try{r: r, shard: shard} }

// target is the node to ask now.
func (t *try) target() string {
	leader, changed := t.r.cfg.Leaders.Watch(t.shard)
	t.changed = changed
	t.count++
	t.hinted = t.hint != ""
	switch {
	case t.hint != "":
		t.asked, t.hint = t.hint, ""
	case leader != "" && leader != t.asked:
		t.asked = leader
	default: // nobody is believed in, or was asked in vain just now: some replica knows
		t.asked = t.replica()
	}
	return t.asked
}

// replica picks one of the shard's replicas: the preferred one first, then the others in turn, who seem dead last, and
// not the one that was just asked while there is another.
func (t *try) replica() string {
	shard := control.Shard(t.r.cfg.State(), t.shard)
	if len(shard.GetReplicas()) == 0 {
		return ""
	}
	if t.asked == "" && t.r.cfg.Alive(shard.Preferred) {
		return shard.Preferred
	}
	dead := ""
	for i := range shard.Replicas {
		id := shard.Replicas[(t.count+i)%len(shard.Replicas)]
		switch {
		case id == t.asked:
		case t.r.cfg.Alive(id):
			return id
		default:
			dead = id
		}
	}
	if dead == "" {
		return t.asked // it is the only one
	}
	return dead
}

// shards gives the target's shards, and counts the hop. nil: there is nobody to ask.
func (t *try) shards() Shards {
	node := t.target()
	switch node {
	case "":
		return nil
	case t.r.cfg.Self:
		t.r.metrics.local.Inc()
		return t.r.cfg.Local
	default:
		t.r.metrics.hops.Inc()
		return t.r.cfg.Remote(node)
	}
}

func (t *try) nobody() error { return &task.NotLeaderError{Shard: t.shard} }

func (t *try) do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	if s := t.shards(); s != nil {
		return s.Do(ctx, t.shard, cmds)
	}
	replies := make([]task.Reply, len(cmds))
	for i := range replies {
		replies[i].Err = t.nobody()
	}
	return replies
}

// How long a call waits between tries when no news of a leader comes first.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// again waits until it makes sense to try again: at once if the answer said who leads, else for news or a while. The
// error is the answer to give when the caller's time is over.
func (t *try) again(ctx context.Context, last error) error {
	t.r.metrics.retries.Inc()
	t.r.cfg.Leaders.Doubt(t.shard, t.asked)
	var notLeader *task.NotLeaderError
	if errors.As(last, &notLeader) && notLeader.Leader != t.asked {
		t.hint = notLeader.Leader
	}
	if t.hint != "" && !t.hinted && ctx.Err() == nil {
		return nil
	}
	timer := time.NewTimer(min(firstPause<<min(t.count-1, 10), lastPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.changed:
		t.hint = "" // news by term is worth more
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
	}
	return nil
}

// answered notes that the node last asked leads, if it had to be looked for.
func (t *try) answered() {
	if t.count > 1 {
		t.r.cfg.Leaders.Answered(t.shard, t.asked)
	}
}

// retryable tells whether the call was certainly not carried out and may be by another node, or a moment later.
func retryable(err error) bool {
	return errors.Is(err, task.ErrNotProposed) && !errors.Is(err, task.ErrUnknown)
}

// unsettled is what is to be tried again. A command whose follower about the same id (or one that shares its slot) was
// answered otherwise stays unproposed: trying it now would turn their order round.
func unsettled(p *part, answers []task.Reply) (*part, error) {
	rest := &part{shard: p.shard}
	var why error
	overtaken := make(map[uint32]bool) // slots
	for i := len(answers) - 1; i >= 0; i-- {
		slot := task.Slot(p.cmds[i].Namespace, p.cmds[i].Id)
		if !retryable(answers[i].Err) {
			overtaken[slot] = true
			continue
		}
		if !overtaken[slot] {
			rest.cmds, rest.at, why = append(rest.cmds, p.cmds[i]), append(rest.at, p.at[i]), answers[i].Err
		}
	}
	reverse(rest.cmds)
	reverse(rest.at)
	return rest, why
}

func reverse[T any](s []T) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}
