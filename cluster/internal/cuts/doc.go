// Package cuts takes a cut of every shard from the shard's leader, on this node or another one, and writes backups of
// the cuts.
//
//	Taker   this node: takes a Set for each backup, and writes the backup
//	Set     the cuts of all shards, each with its unread state
//	Serve   answers another node's request for a cut of a shard that this node leads
//
//	                ┌─ shard 1 ─▶ leader here         ─▶ shard.Cut
//	Taker.Take ─────┼─ shard 2 ─▶ leader on node b    ─▶ Peer.Backup ─▶ Serve ─▶ shard.Cut
//	                └─ …
//
// All cuts are taken side by side before any state is read, so that their instants lie close together: each node takes
// one snapshot after the other. A failed cut is tried again at the leader of that moment. Afterwards the states wait in
// files on their nodes, and gRPC's flow control holds them back until the Set is read. A slow reader therefore costs
// open files, the disk space of one snapshot for each shard, and some buffers of gRPC.
//
// # The map
//
// A slot that moves from one shard to another while the cuts are taken could be in both states or in none. So Take
//
//   - compares the map before the first cut with the map after the last one
//   - compares the map with the slots that each state lacks, since this node may learn of a move late
//
// and begins anew if they differ. An owner by the map has all tasks of a slot: a source up to the moment at which the
// control group names the target, and the target from that moment on (see the moves in package fsm).
package cuts
