package control

import (
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
)

// sightings remembers since when each node has been up or away, during one leadership of the control group. A new
// leader begins anew, so a node is replaced later than asked, never sooner. A node with replicas that is up at the
// leader's first look counts as up for long: otherwise each change of leader would hold up the moves.
type sightings struct {
	up    func(node string) bool
	since map[string]sighting
}

type sighting struct {
	up    bool
	since time.Time
}

func newSightings(up func(node string) bool) *sightings {
	return &sightings{up: up, since: make(map[string]sighting)}
}

// look notes which nodes are up.
func (s *sightings) look(state *clusterpb.ControlState, now time.Time) {
	first := len(s.since) == 0
	for _, n := range state.Nodes {
		up := s.up(n.Id)
		before, known := s.since[n.Id]
		switch {
		case first && up && reshape.Holds(state, n.Id):
			s.since[n.Id] = sighting{up: true}
		case !known || before.up != up:
			s.since[n.Id] = sighting{up, now}
		}
	}
}

// of returns the state of a node at the last look, and for how long it has been in it.
func (s *sightings) of(node string, now time.Time) reshape.Sight {
	seen, known := s.since[node]
	if !known {
		return reshape.Sight{Up: true}
	}
	return reshape.Sight{Up: seen.up, For: now.Sub(seen.since)}
}

// away returns for how many milliseconds each node has been away that is away.
func (s *sightings) away(now time.Time) map[string]int64 {
	away := make(map[string]int64)
	for node, seen := range s.since {
		if !seen.up {
			away[node] = now.Sub(seen.since).Milliseconds()
		}
	}
	return away
}
