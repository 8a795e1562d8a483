// Package placement decides which nodes hold a replica of which shard, which node should lead it, and which nodes vote
// in the control group.
//
//	nodes: id, zone, weight, state ─┐
//	present placement ──────────────┼─▶ Target ─▶ target placement ─▶ Compare ─▶ moves, and counts for each node
//	replication factor ─────────────┘
//	nodes, present voters ────────────▶ Voters ─▶ voters of the control group
//	load of each shard ─────────────────▶ Exchange ─▶ two shards whose leaders should change places
//	slots, number of shards ──────────▶ Split  ─▶ slots of each shard
//	founding nodes, processors ───────▶ Shards ─▶ number of shards of a new cluster
//
// The functions depend on their input only: no state, no clock, no randomness, and not the order of nodes. The control
// group's leader calls them and commits the results. Replicas of the control group never call them, so another build
// may place differently.
//
// # Terms
//
//   - A zone is a set of nodes that may fail together: a data centre, a room, a rack. A node that names no zone is a
//     zone of its own. Where some nodes name a zone and others do not, two replicas may be in one room.
//   - A weight is a node's part of replicas and leaderships, relative to the other nodes: 20 is twice as much as 10.
//   - The present placement of a shard is its last target if it has one, or else the nodes that hold it. So a shard
//     that is on its way keeps its goal while the nodes stay the same.
//   - A replica is copied if the target has it and the present placement does not.
//
// # Rules
//
// A target keeps these rules. An earlier rule prevails over a later one.
//
//	number   A shard has as many replicas as the effective factor: the largest odd number up to the replication factor
//	         and up to the number of nodes that may hold the shard.
//	nodes    The replicas of a shard are on distinct nodes.
//	zones    No zone has two replicas of a shard more than another zone that has a node for one.
//	weights  No exchange of replicas makes the nodes' numbers more even for their weights.
//	copies   As few replicas as possible are copied.
//	leaders  No exchange of preferred leaders makes their numbers more even for the nodes' weights, and as few of them as
//	         possible change.
//
// The states of nodes decide which of them may hold a shard:
//
//	           may hold                                      may lead
//	active     every shard                                   the shards that it holds
//	absent     the shards that it holds                      the shards that it leads, and those without active nodes
//	lost       none, except a replica as described below     none
//	draining   the same                                      none
//
// With two nodes the effective factor is one. Two exceptions keep replicas while nodes are missing: a shard that has
// replicas on both nodes keeps both, and then a third one on a lost or draining node. So three nodes, one of them lost
// or draining, hold all that they held until a fourth node joins.
//
// # Bounds
//
// Where there are zones enough, the replicas are in distinct zones. With three zones or more, each with nodes enough,
// no zone has a majority.
//
// Numbers are as even as the rule of zones lets them be. If neither zones nor the number of shards limits the nodes,
// two nodes with a and b replicas and the weights v and w keep
//
//	(a - 1/2) / v  ≤  (b + 1/2) / w
//
// which means for equal weights that a and b differ by at most one. The same holds for leaders if every node holds
// enough shards. With five nodes in three zones, of two, two and one, the node alone in its zone holds every shard, and
// leads a fifth of them.
//
// The number of copies is the smallest one that these rules permit. For nodes without zones, or with as many equal
// zones as replicas, this means:
//
//   - A node that joins gets its share, rounded up or down: of n nodes of equal weight the nth part of all replicas.
//     Nothing else is copied. Without zones this holds for any weights, unless the nodes that give replicas up hold too
//     few distinct shards for one node to take them. If the join raises the effective factor, the new replicas are
//     copied too.
//   - When a node leaves a cluster as it was formed, its replicas are copied, and nothing else. In a cluster that has
//     changed often, the nodes with fewest replicas may hold just the shards of the leaving node; then evenness needs
//     more copies, at most one for each replica of that node.
//   - Nothing moves while a node is absent.
//   - Without zones, a higher replication factor moves no present replica. A lower one copies nothing.
//
// # Algorithm
//
// Each shard keeps its replicas, as far as the rules of number and zones permit, and takes from the nodes with the
// least number for their weight the replicas that it lacks. Of equal nodes it takes one that shares few other shards
// with its nodes: the work of a lost node is then spread over many.
//
// Then cycles of moves make this placement better, until it is best: see exchange. The price of a node's nth replica is
// (2n+1)/weight, so that its whole price is the square of the number, divided by the weight. The cheapest numbers are
// those of Webster's method of apportionment. With it, the others give when one more takes part, and none of them gets.
// A copy costs less than any unevenness, and the replica of the preferred leader costs less than any copy. Leaders are
// exchanged in the same way.
//
// Thirty nodes in three zones with 512 shards of five replicas take 2 ms to place anew, 17 ms when a node joins.
//
// # Why not otherwise
//
//   - Not consistent or rendezvous hashing: they spread tens of shards unevenly (a node in fifty gets 4 to 22 of 600
//     replicas rather than 12), know no zones, and the bounds that mend it cost the small number of moves.
//   - Not a greedy choice alone: it gets stuck when the only node with room holds the shard already or is in a full
//     zone, and has no bound on the moves. It is the beginning here.
//   - Not shares rounded up or down (the method of the largest remainder): when a node joins, the remainders of the
//     others change, and replicas move between them.
//   - Not a library: gonum has shortest paths, but no flow of minimal cost. Its linear program needs dense matrices of
//     10,000 columns for the same problem.
//   - Not groups of nodes that hold the same shards (copysets). They make it less likely that the loss of two nodes at
//     once stops any shard, and stop more shards when it happens. Wide pairs let many nodes take over the leaderships
//     of a lost node, and many copy its replicas.
//   - Not replicas by load: the sizes and rates of shards change by the minute, and moving a shard costs more than an
//     uneven hour. Shards have equal numbers of slots and tasks hash to them evenly; weights are for unequal machines.
//     Leaderships move in milliseconds, so Exchange evens out their load.
package placement
