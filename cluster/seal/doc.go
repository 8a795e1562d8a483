// Package seal encrypts the secrets of queue policies, and the keys that sign tokens (see package jwtkeys), under the
// keys of a cluster, so that logs, snapshots and backups do not show them.
//
//	Keys   the keys of a file, read again while the node runs
//	Ring   the keys at one time: the first one seals, all of them open
//
//	caller          ──▶ policy with secrets
//	leader             Ring.Seal, before it proposes the entry
//	log, snapshot, backup, state ──▶ sealed policy
//	node that delivers or answers    Ring.Open, in memory
//
// The secrets of a policy are its signing keys, and the values of its target's headers with credentials (see
// task.IsCredential). Headers of single tasks are no secrets of the policy. They are data of callers, as payloads are,
// and are stored as these are.
//
//   - The secrets of one policy are sealed together, with XChaCha20-Poly1305 under a random nonce. Short digests of the
//     signing keys stay readable: answers name the keys by them, also at a node that cannot open them.
//   - The names of the namespace and the queue are authenticated: a sealed value that was moved to another queue does
//     not open.
//   - The values are not bound to the id of the cluster, so that a restore opens them with the same key file.
//   - Applying an entry neither seals nor opens, so that replicas with other keys reach the same state.
//   - Sealing unchanged secrets again gives the same sealed value, so that a repeated change changes nothing.
//
// # The file
//
// Each line holds a key: the base64 of 32 random bytes, as `openssl rand -base64 32` writes it. Empty lines and lines
// that begin with # do not count. The id of a key is a part of its hash, so that the same key has the same id on all
// nodes. Only the owner and the group of the file may be able to read it.
//
// # Rotation
//
//	1  add the new key as the last line, on all nodes    every node can open it
//	2  make it the first line                            the leader seals all policies again, within seconds
//	3  remove the old line once `belfry doctor` says so  old backups still need it
//
// # Why not otherwise
//
// Not a refusal of secrets while there is no key, nor only where the API is open to the network: a key protects disks
// and backups, and TLS and API keys protect the network. Requiring a file on all nodes for the first signed webhook
// would lead to queues without signatures. The doctor notes secrets in the clear instead.
//
// Not AES-256-GCM: its nonces of 96 bits are too short to be drawn at random without a count of messages. Not
// google/tink: its key sets need its own tool, and its library brings protobuf descriptors and registries for the one
// primitive that is needed. Not a key that encrypts another key: a policy's secrets are some hundred bytes, and sealing
// 4,096 policies again takes as many entries of the control group's log, one after the other. Not the encryption of
// whole logs and snapshots: a file system does that for payloads as well, and faster.
package seal
