package amqpapi

import "sort"

// confirms numbers the publishes of a channel twice, for its client and for the broker, and translates the broker's
// confirms. The client's numbers count every publish, and the broker's those that it was passed.
type confirms struct {
	on   bool
	own  uint64 // number of the client's last publish
	sent uint64 // the broker's number of the last one that it was passed

	waiting []unconfirmed // in the client's order, from the first one that is not confirmed
}

// unconfirmed is a publish without a confirm, or one whose confirm is behind that of an earlier publish.
type unconfirmed struct {
	own, sent uint64 // sent as it was after the publish
	kept      bool   // it went to Belfry, and the broker has no number for it
	done      bool
}

// confirm is one confirm for the client.
type confirm struct {
	own      uint64
	multiple bool
}

// passed counts a publish that the broker is passed.
func (c *confirms) passed() {
	c.own++
	c.sent++
	c.note(false)
}

// kept counts a publish that goes to Belfry, and returns its number.
func (c *confirms) kept() uint64 {
	c.own++
	c.note(true)
	return c.own
}

func (c *confirms) note(kept bool) {
	if c.on {
		c.waiting = append(c.waiting, unconfirmed{own: c.own, sent: c.sent, kept: kept})
	}
}

// committed returns whether the client waits for the confirm of a publish that went to Belfry, and forgets it.
func (c *confirms) committed(own uint64) bool {
	i := sort.Search(len(c.waiting), func(i int) bool { return c.waiting[i].own >= own })
	if i == len(c.waiting) || c.waiting[i].own != own || c.waiting[i].done {
		return false
	}
	c.waiting[i].done = true
	c.trim()
	return true
}

// translate appends the client's confirms for one of the broker. A multiple one stays a single frame unless a publish
// that Belfry has not committed yet lies before its end.
func (c *confirms) translate(list []confirm, tag uint64, multiple bool) []confirm {
	if multiple && tag == 0 {
		tag = c.sent // all
	}
	last := sort.Search(len(c.waiting), func(i int) bool { return c.waiting[i].sent >= tag })
	if last == len(c.waiting) || c.waiting[last].sent != tag || c.waiting[last].kept {
		return list // confirmed before
	}
	if !multiple {
		list = c.settle(list, last)
		c.trim()
		return list
	}
	first, begin := 0, len(list)
	for first <= last && !(c.waiting[first].kept && !c.waiting[first].done) {
		list = c.settle(list, first)
		first++
	}
	if n := len(list) - begin; n > 1 {
		list = append(list[:begin], confirm{own: list[begin+n-1].own, multiple: true})
	}
	for i := first; i <= last; i++ {
		list = c.settle(list, i)
	}
	c.trim()
	return list
}

// settle appends the confirm of a publish that the broker has confirmed, unless it had one.
func (c *confirms) settle(list []confirm, i int) []confirm {
	w := &c.waiting[i]
	if w.kept || w.done {
		return list
	}
	w.done = true
	return append(list, confirm{own: w.own})
}

// trim forgets the confirmed publishes before the first unconfirmed one.
func (c *confirms) trim() {
	n := 0
	for n < len(c.waiting) && c.waiting[n].done {
		n++
	}
	if n == len(c.waiting) {
		c.waiting = c.waiting[:0]
		return
	}
	c.waiting = c.waiting[n:]
}
