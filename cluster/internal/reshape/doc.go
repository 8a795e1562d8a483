// Package reshape decides where the replicas of the shards should be, and the next step of a shard on its way there.
// The input is the state of the control group, the nodes that are up, and the Raft group of the shard. Package
// placement chooses the nodes.
//
//	state of the control group ─┐          ┌─▶ Targets   the shards whose replicas should be elsewhere
//	                            ├─▶ Nodes ─┼─▶ Voters    the nodes that should vote in the control group
//	how long nodes are up, away ┘          └─▶ Factor    the replicas of each shard
//	a shard and its group ───────────────────▶ Next      the shard's next step
//
// The package has no state, so each decision may be repeated: its callers compare the targets with the committed ones,
// and a step that fails, or is taken twice, does no harm, since the next look begins from the record and the group as
// they are. Any leader of the control group goes on from any point.
//
// # Targets
//
//	order of an operator   node                        may it hold replicas?
//	none                   up for Calm or longer       yes
//	none                   up for less, or just away   it keeps its replicas and takes no more
//	none                   away for ReplaceAfter       no: the others take its replicas
//	drain, remove          any                         no
//	replace                any                         no
//
// Rules of the targets:
//
//   - The number of replicas is odd: four replicas survive no more failures than three. It is the largest odd
//     number that the nodes allow, up to the replication factor.
//   - A shard never gets fewer replicas because nodes are lost or drained, only because an operator lowers the
//     replication factor. A replica on a node that should hold none stays until another node can take it.
//   - A cluster of two nodes that should have three replicas moves nothing: of two nodes with one replica of each
//     shard, either could lose half of the tasks.
//   - A shard on its way keeps its target while the nodes of the target may hold replicas. So a target changes seldom,
//     and no copy is begun that the next look would throw away.
//
// # Steps
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
// others are removed. Row 0 is the exception from that: a faulty replica, which differs from the others or cannot be
// opened, goes first, and row 5 brings a copy. It adds nothing to its shard but the danger that it leads.
//
// Why not joint consensus, which changes all voters at once? hashicorp/raft changes one server at a time. Why not
// removal first, which would save disk space? A shard would be one failure away from standing still for as long as the
// copy takes.
package reshape
