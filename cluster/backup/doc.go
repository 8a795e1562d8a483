// Package backup is the format of a backup: one stream with the state of every shard and of the control group.
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
// # Damage
//
//   - The CRC-32C of a piece covers the piece's number in the stream, its kind, its length and its payload. So a piece
//     that is changed, lost, repeated or moved is recognised before it is used.
//   - A stream without an end piece was cut off. The SHA-256 in the end piece also finds the changes that keep every
//     CRC-32C, and goes into the trailers of GET /v1/backup.
//   - The state of a shard also carries a hash of its tasks: see fsm. Package verify compares it.
//   - A DamageError says at which byte, and in which part, the damage was found.
//
// # Consistency
//
// A section is the state right after one entry of the shard's log, with all that the shard had acknowledged when the
// backup was requested. The sections are of slightly different instants, which the header states for each shard:
//
//	cut_ms       the wall clock of the shard's leader
//	now_ms       the shard's own time
//	position_ms  the shard's wheel: all tasks due by then had come due
//
// The slots moved by no step between the first cut and the last: the node that makes the backup compares the map.
//
// # Secrets
//
// The control state holds the policies with their secrets. Package seal encrypts these if the cluster has a key. A
// shard's state holds the payloads and the headers of targets. Nothing else is encrypted.
//
// # Why not otherwise
//
//   - Not a tar or zip file: a tar header needs the length of each section beforehand, and neither notices a flipped
//     byte.
//   - Not compressed: callers compress with a tool of their choice, and payloads often are compressed already.
//   - Not one message for each task: the snapshot of a shard has that form already, and its readers exist.
package backup
