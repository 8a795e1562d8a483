// Package backup writes the state of a cluster into one stream, keeps such streams under names, and reads them.
//
//	                ┌─ shard 1 ─▶ leader here       ─▶ shard.Cut ─┐
//	Taker.Backup ───┼─ shard 2 ─▶ leader elsewhere  ─▶ Serve ─────┼─▶ Writer ─▶ Depot: a Folder, or a bucket ─▶ Reader
//	                └─ …                                          ┘
//
//	Taker   cuts all shards and writes a backup of the cuts
//	Serve   answers another node's request for a cut of a shard that this node leads
//	Job     makes a backup, keeps it in a depot, reads it back, and removes older ones
//
// # Cuts
//
// All cuts are taken side by side before any state is read, so that their instants lie close together: each node takes
// one snapshot after the other. A failed cut is tried again at the leader of that moment. Afterwards the states wait in
// files on their nodes, and gRPC's flow control holds them back until they are read. A slow reader therefore costs open
// files, the disk space of one snapshot for each shard, and some buffers of gRPC.
//
// A section is the state right after one entry of the shard's log, with all that the shard had acknowledged when the
// backup was requested. The sections are of slightly different instants, which the header states for each shard:
//
//	cut_ms       the wall clock of the shard's leader
//	now_ms       the shard's own time
//	position_ms  the shard's wheel: all tasks due by then had come due
//
// A slot that moves from one shard to another meanwhile could be in both states or in none. So the Taker compares the
// map before the first cut with the one after the last, and the map with the slots that each state lacks, since this
// node may learn of a move late. It begins anew if they differ. An owner by the map has all tasks of a slot: see the
// moves in package fsm.
//
// # Format
//
//	┌──────────────────────────┐
//	│ magic    "belfryb" 1     │  8 bytes; the last one is the version of the framing
//	├──────────────────────────┤
//	│ header                   │  cluster id, time, control state, the cut of each shard
//	├──────────────────────────┤  ┐
//	│ section  shard           │  │
//	│ state    ≤ 256 KiB       │  │ one section for each shard, in the header's order
//	│ state    …               │  │
//	├──────────────────────────┤  ┘
//	│ end                      │  bytes and SHA-256 of all that precedes this piece
//	└──────────────────────────┘
//
//	piece    kind, 1 byte │ length, 4 bytes │ payload │ CRC-32C, 4 bytes
//
// Numbers are big endian. Payloads are messages of clusterpb, except the payloads of state pieces, which are parts of
// the shard's snapshot. A pause piece without a payload may stand between any two pieces: the writer sends it while the
// shards are being cut, so that the connection is not taken for dead.
//
//   - The CRC-32C of a piece covers the piece's number in the stream, its kind, its length and its payload. So a piece
//     that is changed, lost, repeated or moved is recognised before it is used.
//   - A stream without an end piece was cut off. The SHA-256 in the end piece also finds the changes that keep every
//     CRC-32C, and goes into the trailers of GET /v1/backup.
//   - The state of a shard also carries a hash of its tasks: see fsm. Package recovery compares it.
//   - A DamageError says at which byte, and in which part, the damage was found.
//
// The control state holds the policies with their secrets. Package seal encrypts these if the cluster has a key. A
// shard's state holds the payloads and the headers of targets. Nothing else is encrypted.
//
// # Depots
//
//	Folder  name.part → written, fsynced, read back → renamed to name, the folder fsynced
//	bucket  multipart upload → completed only when the backup is whole → read back, else removed
//
// So a backup's name stands for a whole backup only, wherever the process is killed. A killed process leaves a .part
// file or an incomplete upload. The next backup into the folder removes the file, and stores remove the upload by a
// lifecycle rule. No error contains a credential: they travel in headers, and URLs with a password are refused.
//
// # Why not otherwise
//
//   - Not a tar or zip file: a tar header needs the length of each section beforehand, and neither notices a flipped
//     byte.
//   - Not compressed: callers compress with a tool of their choice, and payloads often are compressed already.
//   - Not one message for each task: the snapshot of a shard has that form already, and its readers exist.
//   - Not a whole S3 client: a depot needs seven requests, which s3.go sends. minio-go signs them and knows the hosts
//     of stores, by two small packages. All of minio-go takes 6 s of processor time to compile, the AWS SDK 12 s.
//   - Not a rename in a bucket: an object appears whole, when its upload is completed.
package backup
