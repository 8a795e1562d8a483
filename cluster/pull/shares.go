package pull

// maxNeed bounds what a pool asks for at once: far more than an entry grants.
const maxNeed = 1 << 16

// shares says how many tasks to ask of each shard so that need are likely to come. ready is how many each has said that
// are waiting there; first is the shard whose turn it is among those.
//
// Where nothing is known to wait, a due task may come from any shard: each is asked for its part. Of those with a
// backlog exactly what is needed is asked, as evenly as they can give it, and nothing of the others among them.
func shares(need int, ready []int, first int) []int {
	asked := make([]int, len(ready))
	if need <= 0 || len(ready) == 0 {
		return asked
	}
	part := (need + len(ready) - 1) / len(ready)
	backlogged, known := 0, 0
	for i, n := range ready {
		if n > 0 {
			backlogged++
			known += n
		} else {
			asked[i] = part
		}
	}
	for left := min(need, known); left > 0; {
		even := (left + backlogged - 1) / backlogged
		for k := range ready {
			i := (first + k) % len(ready)
			n := min(even, ready[i]-asked[i], left)
			if ready[i] > 0 && n > 0 {
				asked[i] += n
				left -= n
			}
		}
	}
	if known < need { // they will have more, too
		for i, n := range ready {
			if n > 0 {
				asked[i] += part
			}
		}
	}
	return asked
}
