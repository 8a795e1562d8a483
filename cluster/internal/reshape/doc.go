// Package reshape decides the next step of a shard on its way from its present replicas to its target.
//
//	        record (control group)        group (the shard's leader)       step
//	0       a faulty replica              no member                        Assign without the node: it deletes its data
//	                                      leads                            Transfer to another voter
//	                                      a member                         Remove
//	1       a replica, not in the target  no member                        Assign without the node: it deletes its data
//	2                                     no vote, not in the target       Remove
//	3       a replica, in the target      no member                        AddNonvoter
//	4                                     no vote, caught up               AddVoter
//	5       in the target, no replica                                      Assign with the node: it opens a replica
//	6       not in the target             leads                            Transfer to a voter of the target
//	7       not in the target             votes                            Remove
//	8       the target                    the target, all voting           Retarget without a target: it has arrived
//
// Each kind of step has a name for views: Place (an Assign with one node more), Join (AddNonvoter), Promote (AddVoter),
// Transfer, Remove, Drop (an Assign without the node) and Settle (the Retarget).
//
// The first row that applies is the next step. In row 4 the shard waits until the replica has caught up, so one copy of
// a shard is under way at a time. Rows 6 and 7 wait until every node of the target votes: replicas are added before
// others are removed. A step that fails, or is taken twice, does no harm, since the next look begins from the record
// and the group as they are. So the decision needs no memory, and any leader of the control group goes on from any
// point.
//
// Row 0 is the exception from that: a faulty replica, which differs from the others or cannot be opened, goes first,
// and row 5 brings a copy. It adds nothing to its shard but the danger that it leads.
//
// The package depends on its input only.
//
// # Why not otherwise
//
// Not joint consensus, which changes all voters at once: hashicorp/raft changes one server at a time. Not removal
// first, which would save disk space: a shard would be one failure away from standing still for as long as the copy
// takes.
package reshape
