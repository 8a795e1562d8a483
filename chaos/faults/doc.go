// Package faults breaks a cluster of real processes and mends it. Meanwhile it records the leader of each shard.
//
//	process   kills, pauses and restarts of nodes
//	network   partitions, cut directions, lost, late and disordered packets
//	disk      power loss, failing, slow and hung fsyncs, failing writes, a full disk
//	clock     wall clocks that are set or drift
//	gossip    lost or forged gossip
//	memory    a node without memory
//	receiver  a slow or hostile receiver of deliveries
//	attack    half-sent requests, files that are damaged before a start
//	shape     nodes that join, leave, are drained or lose their disk, other numbers of replicas, shards that split;
//	          nodes and zones that stay away until others have their replicas; kills at steps of moves
//	upgrade   another build on all nodes, one after the other, and back
//
// These are the groups of faults. All faults follow the same rules:
//
//   - A kind of fault is a row of a table: its name, the group that selects it, its weight, its requirements of the
//     stand, and a function that strikes, holds for a while, mends, and records all of that.
//   - Several faults may strike at once. Each claims the nodes whose processes or disks it touches, and passes if
//     another fault has claimed them.
//   - A fault is mended when its node's process runs again, or its network or disk is whole. It does not wait until the
//     node is ready, because another fault may delay that. The check of the history judges how long the shards took to
//     accept writes again.
//   - The nodes themselves report the leaders, over their public interface.
//
// A kill at a step of a move is aimed: it waits until the nodes report a move at a step, and kills the node that plays
// a wanted part in it. Aims counts the hits by step and part. Steps take milliseconds, so that the nodes of an aimed
// play pause before each (BELFRY_STEP_PAUSE in a build with the tag chaos).
//
// Package workload makes the load that the faults disturb, and check decides whether the cluster withstood them.
package faults
