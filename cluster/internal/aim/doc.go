// Package aim decides where the replicas of the shards should be, by the state of the control group and by the nodes
// that are up. Package reshape decides the steps of a shard on its way there, and package placement chooses the nodes.
//
//	state of the control group ─┐          ┌─▶ Targets   the shards whose replicas should be elsewhere
//	                            ├─▶ Nodes ─┼─▶ Voters    the nodes that should vote in the control group
//	how long nodes are up, away ┘          └─▶ Factor    the replicas of each shard
//
//	order of an operator   node                        may it hold replicas?
//	none                   up for Calm or longer       yes
//	none                   up for less, or just away   it keeps its replicas and takes no more
//	none                   away for ReplaceAfter       no: the others take its replicas
//	drain, remove          any                         no
//	replace                any                         no
//
// # Rules
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
// The package has no state. Its callers compare the result with what is committed, so the decision may be repeated.
package aim
