package consume

import (
	"cmp"
	"slices"
)

// maxNeed is the number of tasks that a pool asks for at most at once: far more than one entry grants.
const maxNeed = 1 << 16

// shares returns how many tasks to ask of each shard so that need tasks are likely to come. ready is the number of
// tasks that each shard has reported as waiting, and next the due time of the first of them, 0 if it is not known.
//
// A shard without a backlog is asked for its part of need, since the next due task may come from any shard. Shards with
// a backlog are asked for exactly need tasks, and as few of them as possible: tasks that arrive together serve one
// consumer at once, while tasks from many shards would partly arrive while it is at work. The shard whose first task is
// due first is asked first. Shards with equal or unknown due times take turns from index first on.
func shares(need int, ready []int, next []int64, first int) []int {
	asked := make([]int, len(ready))
	if need <= 0 || len(ready) == 0 {
		return asked
	}
	order := make([]int, len(ready))
	for k := range order {
		order[k] = (first + k) % len(ready)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(next[i], next[j]) })
	part := (need + len(ready) - 1) / len(ready)
	left := need
	for _, i := range order {
		if ready[i] == 0 {
			asked[i] = part
			continue
		}
		asked[i] = min(ready[i], left)
		left -= asked[i]
	}
	if left > 0 { // shards with a backlog will have more, too
		for i, n := range ready {
			if n > 0 {
				asked[i] += part
			}
		}
	}
	return asked
}
