package shard

import "time"

// bounds are the limits of one entry.
type bounds struct{ commands, bytes int }

// full are the bounds of an entry while one namespace has the shard to itself.
var full = bounds{maxEntryCommands, maxEntryBytes}

// pace finds the bounds of entries while several namespaces have work. A call waits for the entry under way and for its
// own, and a storm makes entries as large as they may be. So pace lets entries grow until they usually take a quarter
// longer than a small one: to a few kilobytes on a fast disk, and to full entries on a slow one. The price of an entry
// is its bytes, at least commandBytes for each command.
type pace struct {
	limit int           // minPace <= limit <= maxEntryBytes
	small time.Duration // usual duration of an entry of at most smallEntry; 0: none was seen
	since int           // entries since the last one of at most smallEntry
}

const (
	smallEntry = maxEntryBytes / 64
	minPace    = maxEntryBytes / 32
	firstPace  = maxEntryBytes / 16
	// paceProbe is the number of entries after which a small one is made, to know its duration beside this load.
	paceProbe = 32
	// paceStep is the part of a value by which one entry moves it. Steps up and down are equal, so a value comes to rest
	// at a median, which a few slow entries do not move.
	paceStep = 16
)

func newPace() pace { return pace{limit: firstPace} }

// bounds returns the limits of the next entry.
func (p *pace) bounds() bounds {
	limit := p.limit
	if p.since >= paceProbe {
		limit = smallEntry
	}
	return bounds{commands: limit / commandBytes, bytes: limit}
}

// learn records the price and the duration of an entry. Other entries than small ones count only if their price is near
// the limit: shorter ones do not show its effect, and longer ones were made without it.
func (p *pace) learn(price int, took time.Duration) {
	switch {
	case price <= smallEntry:
		p.since = 0
		if p.small == 0 {
			p.small = took
		}
		p.small = nudge(p.small, took > p.small)
	case price < p.limit/2 || price > 2*p.limit:
	default:
		p.since++
		p.limit = min(max(nudge(p.limit, took <= p.small*5/4), minPace), maxEntryBytes)
	}
}

// nudge moves a value up or down by one part in paceStep.
func nudge[T int | time.Duration](value T, up bool) T {
	if up {
		return value + value/paceStep
	}
	return value - value/paceStep
}
