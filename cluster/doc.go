// Package cluster is one node among others: who is there, which shard lives where, and how a call reaches its leader.
//
// Node puts the parts together, each in a package of its own:
//
//	identity    what a data folder must never forget: node id, promise, cluster id, groups
//	peer        the one port between nodes: Raft groups, gossip, gRPC; TLS
//	witness      what others saw of a node: an old copy of its folder is recognised
//	gossip      hints: who seems to be there, at which address, who is said to lead
//	addressbook where nodes were reached last, on disk
//	formation   how a node without a cluster gets into one
//	control     Raft group 0: nodes, slots, placement, the queues' policies; readable on every node
//	placement   which nodes hold which shard: a pure function
//	clocks      how far other nodes' clocks are from this one's
//	forward     calls on their one hop to another node
//	router      id → slot → shard → leader, and trying again
//	pull        due tasks, from all leaders to the consumers that wait here
//	disk        how much room is left for the data
//	memory      how much room is left for tasks
//	verify      what is in a stopped node's data folder
//	compare     this node's replicas against those elsewhere, all the time
//
// The rule between them: gossip hints, Raft decides, and gossip may lie or be silent. An address or a leader's name
// may come from gossip, since using a wrong one costs a retry; membership and placement come from the control group
// only. The clocks of all nodes in the control group's map are asked, each once a second, and a node is alive that has
// answered within four.
//
// A peer's addresses are looked up each time it is dialled: where it was last reached and where it is registered, both
// also from the address book on disk, where gossip says it is, and at last those of --join. All are tried, and the node
// that answers proves its id (see package peer). So neither a restart elsewhere nor an address that changed hands needs
// anything to be decided, and nodes that all start again find each other before there is a leader to tell them where
// they are.
//
// What a node does by itself is to follow the control group's state: it runs the replicas that are placed on it and
// keeps its own entry right. It moves nothing. Shards themselves (package shard) know neither this package nor each
// other.
//
// # Queues
//
// A queue's policy is in the control group, so every leader looks it up in its own node's memory, at each attempt. To
// change one, any node asks the control group's leader; then it asks every node that seems alive to say when the new
// version is in force there: known to the node, and to the rules of the shards that it leads. Nobody polls, and who
// does not answer within a second is not waited for: it will read the same log.
//
// A node that has just started may hold an old copy of the policies. It tells its shards so until its registration for
// this start has come back to it through the log, and with it all that was decided before. Leaders undo no rule
// meanwhile, and a queue that was paused stays so.
//
// The limits of a queue as a whole are one shard's to lend: the owner follows from the queue's name, and shards borrow
// from its leader through the router, in memory. Counts are each shard's own, added up by whoever is asked. That is
// bounded by the number of queues and not of tasks: see Node.Queues.
//
// # Nodes in trouble
//
// A node whose disk is nearly full, or whose clock has left the others', gives its leaderships away and takes none
// while another node can lead; all learn of it within a second, and give none home. A full disk ends a node, so a shard
// takes nothing that needs more room unless a majority of its nodes are up and have some: its leader refuses that with
// fsm.ErrNoRoom and carries out the rest. One full disk of three is noticed by nobody. A node does not write a snapshot
// for which there is no room; it keeps its log instead.
//
// Memory is another matter, since every replica holds every task of its shard. So not the majority of a shard's nodes
// counts, but each that is up: as long as one has reached its limit (--memory-limit), the shard's leader refuses new
// tasks with fsm.ErrNoMemory and carries out the rest. Were that node not asked, it would be killed for its memory,
// come back, be sent everything, and be killed again. What other nodes have reached is known within a second, what the
// leader's own has within a quarter; the quarter of the limit that is left has room for what comes meanwhile.
//
// # Starting and stopping
//
// A node of a cluster opens its groups' files and asks the other voters what they saw of it. It runs its Raft groups
// when enough of them have answered and no answer contradicts its data folder: see package witness and Node.Barred. A
// refused node stays up to answer such questions itself.
//
// Open returns as soon as the port is open; a cluster may still have to be formed then, with nodes that start later.
// Ready says when the node is of use. Close gives leaderships away before it hangs up.
package cluster
