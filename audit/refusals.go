package audit

import (
	"sync"
	"time"
)

// Bounds of the counting of equal refusals.
const (
	MaxGroups   = 1024
	groupPeriod = time.Minute
)

// group identifies refusals that count as equal.
type group struct {
	caller              Caller
	from, method, route string
	status              int
	problem             string
	beyond              bool // the group of all refusals beyond MaxGroups
}

// counted is a group with its refusals after the recorded one.
type counted struct {
	example Record    // the newest refusal, without its object
	first   time.Time // of the first counted one
	count   int
	until   time.Time
}

// groups counts equal refusals.
type groups struct {
	mu  sync.Mutex
	now map[group]*counted // MaxGroups elements at most, and the one beyond
}

func newGroups() groups { return groups{now: map[group]*counted{}} }

// first reports whether a refusal is the first of its group, and so is to be recorded at once. It counts the others.
// Beyond MaxGroups it takes the details out of the record.
func (g *groups) first(r *Record) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := group{r.Caller, r.From, r.Method, r.Route, r.Status, r.Problem, false}
	c := g.now[key]
	if c == nil && len(g.now) >= MaxGroups {
		key = group{beyond: true}
		*r = Record{Kind: r.Kind, Time: r.Time, Status: r.Status}
		c = g.now[key]
	}
	if c == nil {
		g.now[key] = &counted{until: r.Time.Add(groupPeriod)}
		return true
	}
	if c.count == 0 {
		c.first = r.Time.Time
	}
	c.count++
	c.example = *r
	c.example.Object, c.example.Fields, c.example.Request = nil, nil, ""
	return false
}

// end removes the groups whose minute is over, or all for the zero time, and returns the records of their counts.
func (g *groups) end(now time.Time) (ended []Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, c := range g.now {
		if !now.IsZero() && now.Before(c.until) {
			continue
		}
		delete(g.now, key)
		if c.count > 0 {
			r := c.example
			r.Count, r.First = c.count, &Instant{c.first}
			ended = append(ended, r)
		}
	}
	return ended
}
