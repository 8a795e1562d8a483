package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Source tells a Search the believed leader of a shard, and learns from it. *Beliefs implements it.
type Source interface {
	// Watch returns the believed leader, empty if there is none, and a channel that is closed at the next change.
	Watch(shard uint32) (node string, changed <-chan struct{})
	// Doubt reports that a node was asked as the leader and does not lead or cannot be reached.
	Doubt(shard uint32, node string)
	// Answered reports that a node answered as the leader.
	Answered(shard uint32, node string)
}

// Placement tells a Search where the replicas of a shard are.
type Placement interface {
	// Placed returns the record with the replicas of a shard and their preferred one; nil: it is not known.
	Placed(shard uint32) *clusterpb.Shard
	// Alive reports whether a node seems alive.
	Alive(node string) bool
}

// RaftLeader is a Source for a group with a replica on this node. It returns the leader that the replica knows from
// Raft, which no call can correct.
type RaftLeader func() (leader string)

// Watch returns the leader. Its channel is never closed.
func (r RaftLeader) Watch(uint32) (node string, changed <-chan struct{}) { return r(), nil }

// Doubt does nothing.
func (RaftLeader) Doubt(uint32, string) {}

// Answered does nothing.
func (RaftLeader) Answered(uint32, string) {}

// firstPause is the pause after the first try that named no other node.
const firstPause = 5 * time.Millisecond

// SearchConfig configures a Search.
type SearchConfig struct {
	Shard     uint32
	Source    Source
	Placement Placement
	LastPause time.Duration // longest pause between two tries
}

// Search is one caller's search for the leader of a shard. It is not safe for concurrent use.
type Search struct {
	cfg     SearchConfig
	failing time.Time       // since when tries fail; zero: none has
	tries   int             // nodes named by Next
	refused int             // tries that failed since the last news
	asked   string          // node of the last try
	hint    string          // leader that the node asked last named; empty: none
	hinted  bool            // the last try followed a hint
	fresh   bool            // the belief changed after the last try failed
	changed <-chan struct{} // closed when the belief is newer than the last try
}

// NewSearch returns a Search that has asked no node yet.
func NewSearch(cfg SearchConfig) Search { return Search{cfg: cfg} }

// Next returns the node to ask now, or an empty string if no replica is known.
func (s *Search) Next() string {
	leader := s.begin()
	s.hinted = s.hint != ""
	switch {
	case s.hinted:
		s.asked, s.hint = s.hint, ""
	case leader != "" && (s.fresh || leader != s.asked):
		s.asked = leader
	default: // no leader is believed in, or the believed one has just refused
		s.asked = s.replica()
	}
	s.fresh = false
	return s.asked
}

// NextReplica returns the replica to ask now for an answer that any replica may give: the one on self if there is one
// and it was not asked yet.
func (s *Search) NextReplica(self string) string {
	s.begin()
	for _, node := range s.cfg.Placement.Placed(s.cfg.Shard).GetReplicas() {
		if node == self && s.tries == 1 {
			s.asked = self
			return self
		}
	}
	s.asked = s.replica()
	return s.asked
}

// begin counts a try and returns the believed leader.
func (s *Search) begin() (leader string) {
	leader, s.changed = s.cfg.Source.Watch(s.cfg.Shard)
	s.tries++
	return leader
}

// replica picks a replica: the preferred one first, then the others in turn. It prefers live nodes to dead ones, and
// any other node to the one that was just asked.
func (s *Search) replica() string {
	placed := s.cfg.Placement.Placed(s.cfg.Shard)
	replicas := placed.GetReplicas()
	if len(replicas) == 0 {
		return ""
	}
	if s.asked == "" && s.cfg.Placement.Alive(placed.Preferred) {
		return placed.Preferred
	}
	dead := ""
	for i := range replicas {
		node := replicas[(s.tries+i)%len(replicas)]
		switch {
		case node == s.asked:
		case s.cfg.Placement.Alive(node):
			return node
		default:
			dead = node
		}
	}
	if dead == "" {
		return s.asked // the only replica
	}
	return dead
}

// Refused records that the last try failed, and returns the pause before the next one. leader is the node that the
// asked one named as the leader, empty if it named none. A pause of 0 means that another node was named.
func (s *Search) Refused(leader string) (pause time.Duration) {
	s.cfg.Source.Doubt(s.cfg.Shard, s.asked)
	s.fresh = false
	if leader != s.asked {
		s.hint = leader
	}
	if s.hint != "" && !s.hinted {
		return 0
	}
	s.refused++
	return min(firstPause<<min(s.refused-1, 10), s.cfg.LastPause)
}

// News records that the belief about the leader has changed since the last try, and ends a pause.
func (s *Search) News() { s.refused, s.hint, s.hinted, s.fresh = 0, "", false, true }

// Found records that the node asked last answered as the leader.
func (s *Search) Found() {
	if s.tries > 1 {
		s.cfg.Source.Answered(s.cfg.Shard, s.asked)
	}
	s.refused, s.failing = 0, time.Time{}
}

// hopelessAfter is the time without success from which on a search ends while most replicas seem dead. A node that only
// restarts is back by then, or another one leads.
const hopelessAfter = 3 * time.Second

// isHopeless reports whether no majority of the replicas could elect a leader.
func (s *Search) isHopeless() bool {
	replicas, alive := s.cfg.Placement.Placed(s.cfg.Shard).GetReplicas(), 0
	for _, node := range replicas {
		if s.cfg.Placement.Alive(node) {
			alive++
		}
	}
	return len(replicas) > 0 && alive <= len(replicas)/2
}

// Again records that the last try failed with err, and waits for the pause to end. It returns an error, which wraps
// err, if ctx ends first, and soon if most replicas seem dead.
func (s *Search) Again(ctx context.Context, err error) error {
	if s.failing.IsZero() {
		s.failing = time.Now()
	}
	if time.Since(s.failing) > hopelessAfter && s.isHopeless() {
		return fmt.Errorf("%w (a majority of its replicas does not answer)", err)
	}
	pause := s.Refused(LeaderIn(err))
	if pause == 0 && ctx.Err() == nil {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.changed:
		s.News()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	return nil
}

// LeaderIn returns the leader that an error names, or an empty string.
func LeaderIn(err error) string {
	var notLeader *task.NotLeaderError
	if errors.As(err, &notLeader) {
		return notLeader.Leader
	}
	return ""
}

// Repeatable reports whether err says that a call was certainly not carried out, so that another node may be asked.
func Repeatable(err error) bool {
	return errors.Is(err, task.ErrNotProposed) && !errors.Is(err, task.ErrUnknown)
}
