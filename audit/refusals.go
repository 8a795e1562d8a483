package audit

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of the counting of refusals. The record of a first refusal and that of its count have at most 1.6 KiB
// together. MaxGroups of both in each period take most of a day to turn over the files of refusals.
const (
	MaxGroups   = 256
	groupPeriod = 10 * time.Minute
)

// several stands in the record of a count for a method or a route that is not the same in all of its refusals.
const several = "*"

// group identifies refusals that are counted together: those of one source for one reason. The caller has accepted
// credentials or is empty, so that no stranger can make any number of groups with one source.
type group struct {
	caller  Caller
	source  string // an IPv4 address, or the /64 of an IPv6 address; empty: all sources beyond MaxGroups
	status  int
	problem string
}

// counted is a group with its refusals after the recorded one.
type counted struct {
	sum   Record // of the counted refusals: the newest time, and the parts that are the same in all
	count int
	first Instant // time of the first counted one
	until time.Time
}

// groups counts refusals.
type groups struct {
	wake chan struct{} // has an element if a refusal is due

	mu  sync.Mutex
	now map[group]*counted // MaxGroups elements at most, and one for each reason beyond
	due []Record           // refusals that wait for the writer: the first of each group
}

func newGroups() *groups { return &groups{now: map[group]*counted{}, wake: make(chan struct{}, 1)} }

// add counts a refusal. The first one of a group is due at once. Beyond MaxGroups it has no details.
func (g *groups) add(r Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	source := sourceOf(r.From)
	key := group{r.Caller, source, r.Status, r.Problem}
	c := g.now[key]
	if c == nil && len(g.now) >= MaxGroups {
		key = group{status: r.Status, problem: r.Problem}
		r = Record{Kind: r.Kind, Time: r.Time, Method: several, Route: several, Status: r.Status, Problem: r.Problem}
		source = ""
		c = g.now[key]
	}
	if c != nil {
		c.add(r, source)
		return
	}
	g.now[key] = &counted{until: time.Now().Add(groupPeriod)}
	g.due = append(g.due, r)
	select {
	case g.wake <- struct{}{}:
	default: // the writer will come
	}
}

func (c *counted) add(r Record, source string) {
	r.Object, r.Fields, r.Request = nil, nil, ""
	if c.count++; c.count == 1 {
		c.sum, c.first = r, r.Time
		return
	}
	if c.sum.From != r.From {
		c.sum.From = source
	}
	if c.sum.Method != r.Method {
		c.sum.Method = several
	}
	if c.sum.Route != r.Route {
		c.sum.Route = several
	}
	c.sum.Time = r.Time
}

// sourceOf returns the part of an address that tells sources apart. The holder of an IPv6 address commonly has all
// addresses of its /64.
func sourceOf(from string) string {
	addr, err := netip.ParseAddr(from)
	if err != nil || addr.Unmap().Is4() {
		return from
	}
	return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
}

// take removes the refusals that are due, and the groups whose time is over, or all. It returns their records, oldest
// first.
func (g *groups) take(all bool) []Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	due := g.due
	g.due = nil
	now := time.Now()
	for key, c := range g.now {
		if !all && now.Before(c.until) {
			continue
		}
		delete(g.now, key)
		if c.count > 0 {
			r, first := c.sum, c.first
			r.Count, r.First = c.count, &first
			due = append(due, r)
		}
	}
	slices.SortStableFunc(due, func(a, b Record) int { return a.Time.Compare(b.Time.Time) })
	return due
}
