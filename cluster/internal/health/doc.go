// Package health knows which nodes are alive and fit, and tells the replicas here whether to lead and to grow.
//
//	fact about a node     source                                     consequence
//	no answer for 4 s     it answers a question for the time every   it counts as down: it is asked last and is given
//	                      second                                     no leadership
//	disk nearly full      its report, once a second                  its replicas are unwilling to lead; a shard without
//	                                                                 a live majority that has room takes nothing more
//	memory limit reached  its report, once a second                  its shards take no new task while it is alive
//	unwilling replica     its report, once a second                  the replica is given no leadership
//	outvoted replica      package compare                            the same, and one here stops serving (Barred)
//	clock apart           package clocks, of this node               its replicas are unwilling to lead
//
// Reports ride on the exchange by which replicas are compared, and cost no message of their own.
//
// # Why not otherwise
//
// Not by gossip: any sender may forge it. Not in the control group: health changes too often for a log, and an old
// entry would be worse than none.
package health
