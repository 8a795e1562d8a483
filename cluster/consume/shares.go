package consume

// maxNeed bounds what a pool asks for at once: far more than an entry grants.
const maxNeed = 1 << 16

// shares says how many tasks to ask of each shard so that need are likely to come. ready is how many each has said that
// are waiting there; first is the shard whose turn it is among those.
//
// Where nothing is known to wait, a due task may come from any shard: each is asked for its part. Of those with a
// backlog exactly what is needed is asked, of as few as have it: what comes in one piece serves its consumer at once,
// and the rest of many pieces would come while he is at work.
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
	if left > 0 { // they will have more, too
		for i, n := range ready {
			if n > 0 {
				asked[i] += part
			}
		}
	}
	return asked
}
