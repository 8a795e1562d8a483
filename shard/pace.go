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
	small time.Duration // usual duration of a small entry; 0: none was seen
	since int           // entries since the last one with the limits of a small one
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

// next returns the limits of the next entry.
func (p *pace) next() bounds {
	limit := p.limit
	if p.since >= paceProbe {
		limit = smallEntry
	}
	return bounds{commands: limit / commandBytes, bytes: limit}
}

// taken notes that work for an entry within limits of next was taken.
func (p *pace) taken(within bounds) {
	if within.bytes == smallEntry {
		p.since = 0
	} else {
		p.since++
	}
}

// learn records the price and the duration of an entry within limits of next. An entry with the limits of a small one
// is small at any price: no shorter one could be made. Entries far below their limits do not show the effect of these.
func (p *pace) learn(within bounds, price int, took time.Duration) {
	switch {
	case price <= smallEntry || within.bytes == smallEntry:
		if p.small == 0 {
			p.small = took
		}
		p.small = nudge(p.small, took > p.small)
	case price >= within.bytes/2:
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
