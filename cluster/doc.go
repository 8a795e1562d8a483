// Package cluster is one node of a cluster. It knows the members and the placement of the shards, and brings each call
// to its shard's leader.
//
// The data folder:
//
//	witness     other nodes' records of a node, which expose an old copy of its folder
//	headroom    the room left on the disk and in memory; amounts of bytes, parsed and formatted
//	backup      the cluster in one stream: cuts of all shards, the format, folders and buckets of backups
//	recovery    checks of a stopped node's folder and of backups; the folder of a new cluster, out of a backup or out of
//	            the folders that are left when a majority of the disks is lost
//
// The other nodes:
//
//	peer        the one port between nodes: Raft groups, gossip, gRPC; TLS
//	peerkeys    the certificates and gossip keys of this node, read again when their files change
//	certs       the operator's side of them: an authority, nodes' certificates, rotations
//	gossip      hints: live nodes, their addresses, the shards' leaders
//	calls       the calls between nodes, in one envelope: the handlers of this node, the stream to another one, and the
//	            search for the leader of a shard
//	clocks      the offsets of other nodes' clocks from this one's
//
// The place in the cluster:
//
//	membership  the identity of a data folder; the way of this node into its cluster, by forming or joining it, and
//	            back into it after a restart; its entry there; the nodes of the cluster and their addresses
//	control     Raft group 0: nodes, slots, placement, the queues' policies, keys, namespaces; readable on every node;
//	            its leader places replicas, moves slots, erases namespaces, and makes bulk calls
//	placement   which nodes hold which shard: a pure function
//
// The shards:
//
//	replicas    the replicas placed here: their opening, and their handlers of calls
//	router      id → slot → shard → leader, and repeated tries
//	consume     due tasks, from all leaders to the consumers that wait here
//	seal        the encryption of the policies' secrets under the keys of the cluster
//	tenants     API keys and namespaces: their changes, and the present ones for the calls here
//	health      live nodes and their room, replicas that differ from others; whether the replicas here may lead and grow
//	doctor      troubles of the cluster and the next step of an operator: a pure function of a node's knowledge
//
// Node opens these parts, gives each the others that it needs, and closes them in the reverse order. Small
// types stand beside it in this package: peers (the connections to other nodes), server (the calls from them), viewer
// (the cluster as this node sees it), examiner (its troubles) and Operations (the operators' changes of it).
//
// The shape of the cluster has three places: the leader of the control group decides on it, step by step (control);
// membership brings nodes in; replicas opens the replicas that are placed here.
//
// # Hints and decisions
//
//   - Gossip hints, Raft decides, and gossip may lie or be silent. An address or a leader's name may come from gossip,
//     since a wrong one costs a retry.
//   - Membership and placement come from the control group only.
//   - The node asks the clocks of all nodes in the control group's map, each once a second. A node that has answered
//     within four seconds is alive.
//   - A node by itself only follows the control group's state: it runs the replicas that are placed on it and keeps
//     its own entry right. It moves no replica.
//   - Shards themselves (package shard) know neither this package nor each other.
//
// # Addresses
//
// Each dial looks up a peer's addresses. It tries all of them, and the answering node proves its id (see package
// peer):
//
//   - the address where the peer was last reached, and the one where it is registered, both also from the address book
//     on disk;
//   - then the address in gossip;
//   - at last the addresses of --join.
//
// A restart elsewhere, or an address that changed hands, therefore needs no decision of the cluster. Nodes that all
// start again find each other before a leader can send them their addresses.
//
// # Queues
//
//   - A queue's policy is in the control group, so every leader looks it up in its own node's memory, at each attempt.
//   - To change a policy, a node asks the control group's leader, and waits until the live nodes obey the new version:
//     see control.Policies.
//   - A node that has just started may hold an old copy of the policies. It reports that to its shards until its
//     registration for this start has come back through the log, together with all earlier decisions. Leaders undo no
//     rule meanwhile, so a paused queue stays paused.
//   - One shard lends the limits of a queue as a whole. The queue's name determines that owner, and shards borrow from
//     the owner's leader through the router, in memory.
//   - Each shard counts its own tasks, and the node that a caller asks adds the counts up. The number of counts is
//     bounded by the number of queues and not of tasks: see Node.Queues.
//
// # Nodes in trouble
//
//   - A node whose disk is nearly full, or whose clock has left the others', gives its leaderships away. It takes none
//     while another node can lead. All nodes learn of it within a second, and give it no leadership back.
//   - A full disk ends a node. A shard therefore accepts commands that need more room only while a majority of its
//     nodes are up and have room. Otherwise its leader refuses them with task.ErrNoRoom and carries out the rest.
//     Callers do not notice one full disk of three.
//   - A node does not write a snapshot for which there is no room; it keeps its log instead.
//   - Every replica holds every task of its shard in memory, so each live node of a shard counts, and not their
//     majority. While one node has reached its limit (--memory-limit), the shard's leader refuses new tasks with
//     task.ErrNoMemory and carries out the rest.
//   - Why not ignore the node with a full memory? It would be killed for its memory, come back, receive every task
//     again, and be killed again.
//   - The leader knows the memory use of other nodes within a second, and its own node's within a quarter of a second.
//     The last quarter of the limit has room for the tasks that arrive meanwhile.
//
// # Starting and stopping
//
//   - A node of a cluster opens its groups' files and asks the other voters for their records of it. It runs its Raft
//     groups when enough of them have answered and no answer contradicts its data folder: see package witness and
//     Node.Barred. A refused node stays up to answer such questions itself.
//   - The answers also tell whether the node was removed, which of its replicas were removed meanwhile, and which nodes
//     vote by now. So a node returns after any time, also if no node of its folder is in the cluster any more.
//   - Open returns as soon as the port is open. The cluster may still have to be formed then, with nodes that start
//     later. Ready reports when the node can serve.
//   - Close gives leaderships away before it closes the connections.
package cluster
