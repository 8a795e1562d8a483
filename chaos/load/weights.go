package load

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// script plays the life of one id: a few calls, one after the other.
type script func(ctx context.Context, p *Player, rng *rand.Rand, id string)

// scripts are all scripts with their usual weights. A seed keeps its scripts as long as the weights stay and the
// scripts with a weight keep their order.
var scripts = []struct {
	name   string
	weight int
	play   script
}{
	{"plain", 30, plain},
	{"storm", 4, storm},
	{"batch", 4, batch},
	{"retried", 8, retried},
	{"dead", 3, dead},
	{"cancelled", 12, cancelled},
	{"cancelled at due", 10, cancelledAtDue},
	{"stopped", 4, stopped},
	{"replaced", 8, replaced},
	{"replaced and cancelled", 4, replacedAndCancelled},
	{"replaced at due", 4, replacedAtDue},
	{"patched", 6, patched},
	{"touched", 6, touched},
	{"heartbeats", 2, heartbeats},
	{"fired", 5, fired},
	{"conditional", 4, conditional},
	{"expiring", 5, expiring},
	{"queued", 8, queued},
	{"pulled", 12, pulled},
	{"grouped", 0, grouped}, // needs Config.Groups
}

// Only returns the weights with which all scripts but one are never played.
func Only(name string) map[string]int {
	weights := map[string]int{}
	for _, s := range scripts {
		weights[s.name] = 0
	}
	weights[name] = 1
	return weights
}

// weigh returns the scripts with their weights. A weight in changed replaces the usual weight of the script of that
// name. weigh panics if no script has the name.
func weigh(changed map[string]int) []choice[script] {
	unknown := maps.Clone(changed)
	all := make([]choice[script], len(scripts))
	for i, s := range scripts {
		if weight, ok := changed[s.name]; ok {
			s.weight = weight
			delete(unknown, s.name)
		}
		all[i] = choice[script]{s.weight, s.play}
	}
	if len(unknown) > 0 {
		panic(fmt.Sprintf("load: no scripts %q", slices.Sorted(maps.Keys(unknown))))
	}
	return all
}

// choice is one of several values, with its weight.
type choice[T any] struct {
	weight int
	value  T
}

func pick[T any](rng *rand.Rand, from []choice[T]) T {
	total := 0
	for _, c := range from {
		total += c.weight
	}
	n := rng.IntN(total)
	for _, c := range from {
		if n < c.weight {
			return c.value
		}
		n -= c.weight
	}
	panic("weights do not add up")
}
