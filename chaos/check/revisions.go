package check

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// Revisions checks the part of invariant 8 that needs no search: what an answer shows of a task is never older than
// what an answer showed that had come before the call began.
func Revisions(x *Index) Finding {
	f := Finding{Invariant: "8", Promise: "revisions never go back (a part of linearizability)"}
	compared := 0
	for _, t := range x.order {
		sights := t.sights()
		if len(sights) < 2 {
			continue
		}
		ended := slices.Clone(sights)
		slices.SortFunc(ended, func(a, b sight) int { return cmp.Compare(a.end, b.end) })
		var newest sight
		for _, s := range sights {
			for ; len(ended) > 0 && ended[0].end < s.start; ended = ended[1:] {
				if ended[0].revision > newest.revision {
					newest = ended[0]
				}
			}
			if newest.revision == 0 {
				continue
			}
			compared++
			if s.revision < newest.revision {
				f.breach(s.start, t.id, "operation %d began after operation %d had shown revision %d, and shows %d",
					s.n, newest.n, newest.revision, s.revision)
			}
		}
	}
	f.figures("%d answers compared", compared)
	return f
}

// sight is a task as an answer showed it, at an instant between start and end.
type sight struct {
	n          int64
	start, end history.Instant
	revision   uint64 // 0: it did not say
	state      string
}

// sights are all certain ones of a task, by start.
func (t *task) sights() []sight {
	var all []sight
	for _, r := range t.reads {
		if r.Outcome == history.OK {
			all = append(all, sight{r.Op, r.Start, r.End, r.Answer.Revision, r.Answer.State})
		}
	}
	for _, o := range t.ops {
		if o.outcome == history.OK && o.answer.Revision > 0 {
			all = append(all, sight{o.n, o.start, o.end, o.answer.Revision, o.answer.State})
		}
	}
	slices.SortFunc(all, func(a, b sight) int { return cmp.Compare(a.start, b.start) })
	return all
}
