package groups

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

const (
	// lookTime is the limit on the time of a look. A shard that gives tasks away keeps them for at least that long, so
	// that a look finds them at one of the two: see beforeDrop of package control.
	lookTime = time.Second
	retry    = 5 * time.Millisecond // pause after a round that could not judge all groups; doubled after each that failed
	keepBook = 10 * time.Second     // life of a book after its last ask, or of another one while it knows of a rate
)

// run makes the rounds of a queue until no ask has come for a while.
func (k *Keeper) run(queue [2]string, b *book) {
	pause, quiet, failures := poll, time.Now(), 0
	for {
		all := false
		select {
		case <-k.ctx.Done():
			return
		case <-b.news:
			quiet = time.Now()
		case <-time.After(pause):
			all = pause == poll
		}
		idle := time.Since(quiet) >= keepBook
		names, next, ok := k.begin(queue, b, all, idle)
		if !ok {
			return
		}
		if idle {
			quiet = time.Now()
		}
		pause = next
		if len(names) == 0 {
			continue
		}
		switch judged, err := k.round(queue, b, names); {
		case err != nil:
			pause = min(retry<<failures, poll/2)
			failures = min(failures+1, maxFailures)
			continue
		case !judged:
			pause = retry
		default:
			pause = k.next(b)
		}
		failures = 0
	}
}

// maxFailures is the number of failures from which on the pause does not grow.
const maxFailures = 5

// begin returns the groups of the next round, and the pause after it unless the round decides: the groups of new asks,
// and those that an ask wants and that have ended attempts or waited for their rate. With all set, it returns those of
// all asks. It forgets an idle book and returns false.
func (k *Keeper) begin(queue [2]string, b *book, all, idle bool) (names []string, pause time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if idle && len(b.parked) == 0 && b.pace.isIdle(now) {
		delete(k.books, queue)
		return nil, 0, false
	}
	b.pace.wake(now, b.ended)
	wanted := map[string]bool{}
	for _, p := range b.parked {
		for _, w := range p.Wants {
			if !wanted[w.Group] && (all || !p.asked || b.ended[w.Group]) {
				wanted[w.Group] = true
				names = append(names, w.Group)
			}
		}
	}
	clear(b.ended)
	return names, b.pace.next(now), true
}

// next returns the pause until the next round, if nothing is heard.
func (k *Keeper) next(b *book) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return b.pace.next(time.Now())
}

// errUnknownShard is the error of a look at fewer shards than ask. The node of the owner is late with the news of a new
// shard, which may have taken over attempts and tasks.
var errUnknownShard = errors.New("groups: a shard that asks was not looked at")

// round looks where groups stand and gives permits. It reports whether it could judge all groups.
func (k *Keeper) round(queue [2]string, b *book, names []string) (judged bool, err error) {
	k.mu.Lock()
	owner := b.owner
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, lookTime)
	defer cancel()
	standings, err := k.look(ctx, Look{Owner: owner, Namespace: queue[0], Queue: queue[1], Groups: names})
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && !b.knows(standings) {
		err = errUnknownShard
	}
	if err != nil || b.owner != owner {
		b.again(names)
		return false, err
	}
	b.see(standings)
	b.unclear = map[string]bool{}
	answers := map[*parked]*Answer{}
	for i, group := range names {
		b.give(answers, group, countsOf(standings, i))
	}
	b.answer(answers, names)
	return len(b.unclear) == 0, nil
}

// knows reports whether all shards with an ask are among those looked at.
func (b *book) knows(standings []Standing) bool {
	return !slices.ContainsFunc(b.parked, func(p *parked) bool {
		return !slices.ContainsFunc(standings, func(s Standing) bool { return s.Shard == p.Shard })
	})
}

// again keeps groups for the next round.
func (b *book) again(names []string) {
	for _, name := range names {
		b.ended[name] = true
	}
}

// see forgets the permits that the standings show, and those of shards that there no longer are.
func (b *book) see(standings []Standing) {
	done := map[uint32]position{}
	for _, s := range standings {
		done[s.Shard] = position{s.Term, s.Done}
	}
	b.given = slices.DeleteFunc(b.given, func(p permit) bool {
		at, ok := done[p.shard]
		return !ok || !at.isBefore(p.to)
	})
}

// standing is where a group stands in one shard.
type standing struct {
	Count
	shard   uint32
	clearMs int64
}

func countsOf(standings []Standing, i int) []standing {
	counts := make([]standing, len(standings))
	for j, s := range standings {
		counts[j] = standing{s.Groups[i], s.Shard, s.ClearMs}
	}
	return counts
}

// give gives the free permits of a group to the asks that want them.
func (b *book) give(answers map[*parked]*Answer, group string, counts []standing) {
	free, retrying := cmp.Or(b.limit.InFlight, math.MaxInt), 0
	for _, c := range counts {
		free -= c.UnderWay
		retrying += c.Retrying
	}
	for _, p := range b.given {
		if p.group == group {
			free -= p.n
		}
	}
	if free > 0 {
		free = min(free, b.pace.free(time.Now(), group))
	}
	if b.limit.InOrder {
		b.giveFirst(answers, group, counts, free > 0 && retrying == 0)
		return
	}
	counts = slices.DeleteFunc(counts, func(c standing) bool { return !c.Waiting })
	slices.SortFunc(counts, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.FirstMs, b.FirstMs), cmp.Compare(a.shard, b.shard))
	})
	for _, c := range counts {
		free -= b.hand(answers, group, c, max(free, 0))
	}
}

// giveFirst gives the permit of a group to the shard with the earliest task.
func (b *book) giveFirst(answers map[*parked]*Answer, group string, counts []standing, isFree bool) {
	waiting := slices.DeleteFunc(slices.Clone(counts), func(c standing) bool { return !c.Waiting })
	if !isFree || len(waiting) == 0 {
		return
	}
	first := slices.MinFunc(waiting, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.FirstMs, b.FirstMs), cmp.Compare(a.shard, b.shard))
	})
	if slices.ContainsFunc(counts, func(c standing) bool { return c.clearMs < first.FirstMs }) {
		b.unclear[group], b.ended[group] = true, true // a wheel may be about to pop an earlier task
		return
	}
	b.hand(answers, group, first, 1)
}

// hand gives up to n permits of a group to the ask of a shard, and returns their number.
func (b *book) hand(answers map[*parked]*Answer, group string, c standing, n int) int {
	for _, p := range b.parked {
		if p.Shard != c.shard {
			continue
		}
		for _, w := range p.Wants {
			if w.Group == group {
				n = min(n, w.Permits)
				b.note(answers, p, Given{Group: group, Permits: n, FirstMs: c.FirstMs})
				return n
			}
		}
	}
	return 0
}

// note adds permits to the answer of an ask.
func (b *book) note(answers map[*parked]*Answer, p *parked, g Given) {
	if g.Permits == 0 {
		return
	}
	if answers[p] == nil {
		answers[p] = &Answer{Owner: b.owner}
	}
	answers[p].Given = append(answers[p].Given, g)
	b.pace.take(g.Group, g.Permits)
	last := b.heard[p.Shard]
	last.given = append(last.given, Want{g.Group, g.Permits})
	b.heard[p.Shard] = last
	b.given = append(b.given, permit{group: g.Group, shard: p.Shard, to: p.position(), n: g.Permits})
}

// answer answers the asks that have got permits, and those that were to be looked at once. An ask for a group that
// could not be judged waits for the next round.
func (b *book) answer(answers map[*parked]*Answer, names []string) {
	looked := make(map[string]bool, len(names))
	for _, name := range names {
		looked[name] = true
	}
	b.parked = slices.DeleteFunc(b.parked, func(p *parked) bool {
		p.asked = p.asked || !slices.ContainsFunc(p.Wants, func(w Want) bool {
			return !looked[w.Group] || b.unclear[w.Group]
		})
		answer := answers[p]
		if answer == nil && (p.Wait || !p.asked) {
			return false
		}
		if answer == nil {
			answer = &Answer{Owner: b.owner}
		}
		p.done <- *answer
		return true
	})
}
