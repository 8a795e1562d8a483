package consume

// maxNeed is the number of tasks that a pool asks for at most at once: far more than one entry grants.
const maxNeed = 1 << 16

// shares returns how many tasks to ask of each shard so that need tasks are likely to come. ready is the number of
// tasks that each shard has reported as waiting; first is the index at which the search for shards with a backlog
// starts.
//
// A shard without a backlog is asked for its part of need, since the next due task may come from any shard. Shards with
// a backlog are asked for exactly need tasks, and as few of them as possible: tasks that arrive together serve one
// consumer at once, while tasks from many shards would partly arrive while it is at work.
func shares(need int, ready []int, first int) []int {
	asked := make([]int, len(ready))
	if need <= 0 || len(ready) == 0 {
		return asked
	}
	part := (need + len(ready) - 1) / len(ready)
	left := need
	for k := range ready {
		i := (first + k) % len(ready)
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
