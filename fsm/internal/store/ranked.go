package store

import (
	"cmp"
	"fmt"
	"math"

	"github.com/google/btree"

	"github.com/belfryhq/belfry/fsm/task"
)

// ranked holds the ready tasks of a lane that have a group, or another priority than the default, in the order of their
// ranks. Most lanes have none.
type ranked struct {
	ranks  rankTree                 // nil: none yet
	counts [task.LastPriority]int32 // tasks of each priority, the first priority first
}

// rank is the place of a ready task in its lane.
type rank struct {
	priority uint8 // 1 to 5
	class    rankClass
	due      int64 // fire_at
	order    int64 // progress.order; no two tasks of a lane have the same
	task     handle
}

// rankClass orders the tasks of one priority. A task of a group that has begun before comes before the others, so that
// the group keeps its order while one is retried. A task without a group then comes after the others.
type rankClass uint8

const (
	rankBegun rankClass = iota
	rankFresh
	rankRetried
)

func (r rank) compare(other rank) int {
	return cmp.Or(cmp.Compare(r.priority, other.priority), r.compareTime(other))
}

// compareTime compares ranks regardless of the priorities.
func (r rank) compareTime(other rank) int {
	return cmp.Or(cmp.Compare(r.class, other.class), cmp.Compare(r.due, other.due), cmp.Compare(r.order, other.order))
}

// rankDegree is the degree of the B-trees, whose nodes then have some hundred bytes to two kilobytes.
const rankDegree = 32

func (rs *ranked) len() int {
	if rs.ranks == nil {
		return 0
	}
	return rs.ranks.Len()
}

// rankTree is a *btree.BTreeG[rank]. In a field, that type would be compiled anew in each package that sees a Store:
// 0.2 s of processor time for each of seventeen packages, for it and the tree of dueIndex.
type rankTree interface {
	Len() int
	Min() (rank, bool)
	ReplaceOrInsert(rank) (rank, bool)
	Delete(rank) (rank, bool)
	Ascend(btree.ItemIteratorG[rank])
	AscendGreaterOrEqual(rank, btree.ItemIteratorG[rank])
	DescendLessOrEqual(rank, btree.ItemIteratorG[rank])
}

// newRankTrees returns a function that makes trees. They share the nodes that they may use again, because a list for
// each tree would take more memory than the task of a small group.
func newRankTrees() func() rankTree {
	nodes := btree.NewFreeListG[rank](btree.DefaultFreeListSize)
	return func() rankTree { return btree.NewWithFreeListG(rankDegree, isBefore, nodes) }
}

func isBefore(a, b rank) bool { return a.compare(b) < 0 }

func (rs *ranked) add(r rank, newTree func() rankTree) {
	if rs.ranks == nil {
		rs.ranks = newTree()
	}
	rs.ranks.ReplaceOrInsert(r)
	rs.counts[r.priority-1]++
}

func (rs *ranked) remove(r rank) {
	if _, ok := rs.ranks.Delete(r); !ok {
		panic(fmt.Sprintf("fsm: task %d has no rank %+v", r.task, r))
	}
	rs.counts[r.priority-1]--
}

// first returns the first rank or, with inOrder set, the earliest one of any priority. ok is false if there is none.
func (rs *ranked) first(inOrder bool) (first rank, ok bool) {
	if rs.len() == 0 {
		return rank{}, false
	}
	if !inOrder {
		return rs.ranks.Min()
	}
	for i, n := range rs.counts {
		if n == 0 {
			continue
		}
		if r := rs.firstOf(uint8(i + 1)); !ok || r.compareTime(first) < 0 {
			first, ok = r, true
		}
	}
	return first, ok
}

// firstOf returns the first rank of a priority that has one.
func (rs *ranked) firstOf(priority uint8) (first rank) {
	rs.ranks.AscendGreaterOrEqual(leastRank(priority, rankBegun), func(r rank) bool {
		first = r
		return false
	})
	return first
}

func leastRank(priority uint8, class rankClass) rank {
	return rank{priority: priority, class: class, due: math.MinInt64, order: math.MinInt64}
}

// ends returns the oldest and the newest fresh task of a priority and its oldest retried one; 0: there is none. The
// tasks have no group.
func (rs *ranked) ends(priority uint8) (oldest, newest, retried handle) {
	if first := rs.firstOf(priority); first.class == rankFresh {
		oldest = first.task
	}
	border := leastRank(priority, rankRetried)
	rs.ranks.DescendLessOrEqual(border, func(r rank) bool {
		if r.priority == priority {
			newest = r.task
		}
		return false
	})
	rs.ranks.AscendGreaterOrEqual(border, func(r rank) bool {
		if r.priority == priority {
			retried = r.task
		}
		return false
	})
	return oldest, newest, retried
}

// firstMs returns the due time of the earliest task, or task.BegunMs if that task has begun before. It returns 0 if
// there is no task.
func (rs *ranked) firstMs() int64 {
	first, ok := rs.first(true)
	if ok && first.class == rankBegun {
		return task.BegunMs
	}
	return first.due
}

// isRanked reports whether a ready task of a priority is among the ranked tasks of the lane.
func (l *Lane) isRanked(priority int) bool { return l.Group != "" || priority != task.DefaultPriority }

// putRanked puts a task among the ranked tasks of the lane.
func (l *Lane) putRanked(e Edit, priority int, order int64) {
	p := e.write()
	p.priority, p.order = uint8(priority), order
	l.ranked.add(l.rankOf(e.h, p), e.s.Lanes.newRankTree)
}

// takeRanked takes a task out of the ranked tasks of the lane.
func (l *Lane) takeRanked(e Edit) {
	p := e.write()
	l.ranked.remove(l.rankOf(e.h, p))
	p.priority, p.order = 0, 0
}

func (l *Lane) rankOf(h handle, p *progress) rank {
	class := rankFresh
	switch {
	case p.retried && l.Group != "":
		class = rankBegun
	case p.retried:
		class = rankRetried
	}
	return rank{priority: p.priority, class: class, due: p.fireAt, order: p.order, task: h}
}
