package check

import "time"

// Majority checks that a majority of a shard's replicas is enough: every shard takes a write within limits.Recover of a
// fault that leaves one, and the fault is not mended for it. Faults that strike beside another one are not judged.
func Majority(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "13f", Promise: "a majority of the replicas is enough"}
	writes, born := x.writesByShard(), x.born()
	var slowest time.Duration
	struck, wrote := 0, 0
	for i := range x.h.Faults {
		fault := &x.h.Faults[i]
		if !fault.Survivable || !x.nothingBeside(fault, fault.Struck, fault.Struck) {
			continue
		}
		struck++
		next := x.nextFault(fault.Struck)
		for shard, ws := range writes {
			if born[shard] > fault.Struck {
				continue
			}
			took, ok := firstAfter(ws, fault.Struck)
			switch {
			case ok && fault.Struck.Add(took) < next && took <= limits.Recover:
				wrote++
				slowest = max(slowest, took)
			case fault.Struck.Add(limits.Recover) < next:
				f.breach(fault.Struck, "", "shard %d took no write within %v of the %s of %v (it took %v; 0: none ever)", shard,
					limits.Recover, fault.Kind, fault.Nodes, took)
			}
		}
	}
	f.Observe(wrote, "first writes of a shard after a fault that left a majority of its replicas")
	f.figures("%d faults; first write at most %v after they struck", struck, slowest)
	return f
}
