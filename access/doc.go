// Package access finds the callers behind credentials, and decides which calls they may make. It has the vocabulary of
// callers, grants and needs, the text of API keys, and the Authority that turns the credentials of a call into its
// Caller.
//
//	Role       a kind of work that a caller may do: read, schedule, consume, operate, admin
//	Grant      a role within one namespace or all, and perhaps only for some queues and ids
//	Caller     an identity with its grants, as one call carries it
//	Need       the demands of one call on its caller
//	KeyRecord  an API key as the cluster stores it
//	Source     the committed keys, which package cluster implements
//	Authority  the callers behind keys, tokens and certificates
//	Refusal    the reason why credentials make no caller
//
// # Roles
//
// Each role includes read. Admin includes every role, and alone manages keys, namespaces and the audit log. A call
// about a queue or an id needs a grant that reaches both; a caller whose grants name queues or ids cannot list beyond
// them.
//
// # Keys
//
//	bfy_<id>_<secret>_<checksum>
//
//	id        10 characters; a rotation keeps it
//	secret    32 random bytes in 52 characters
//	checksum  CRC-32 (IEEE) of all before its underscore, in 7 characters
//
// All parts are base32 in lower case: a double click selects a whole key. The checksum tells a mistyped key from a
// wrong one without a lookup, and secret scanners find keys by their form. The cluster stores the SHA-256 of the text.
// The text itself is shown once.
//
// Why no slow hash, as for passwords? A secret has 256 random bits. There is no list of likely secrets to try, and each
// call would pay for the slow hash.
//
// # Credentials
//
//	the call has                        it is judged by                     the caller is
//	Authorization: Bearer bfy_…         the root key, then the Source       root key, key
//	Authorization: Bearer anything      Config.Tokens                       token
//	no header, a client certificate     Config.Certificates                 certificate
//	none of them                        refused as Missing
//
// Calls need credentials if the node has a root key, an issuer of tokens or names of certificates, or if the cluster
// has keys in force. Otherwise every caller is local.
//
//   - A header counts alone, also beside a certificate. A wrong key never falls back to another credential.
//   - A node that does not know the keys of its cluster yet refuses calls as Unavailable, so that nothing opens by
//     ignorance. Root key, tokens and certificates are judged there, too.
//   - An identity that is proven but has no grants is a caller without grants. Calls about a namespace are then refused
//     as those about one that does not exist, and the refusals of other calls name the missing role.
//
// # Wrong keys
//
//   - Unknown, expired and revoked keys get one answer, after the same work: a key that does not exist is compared with
//     a decoy. Hashes are compared in constant time.
//   - Each address has 100 wrong credentials a second; an IPv6 address counts as its /64. A call without credentials is
//     no attempt. Above the limit no new key is judged. Keys that were right before pass nevertheless, so that an
//     attacker behind the same address locks out no caller that works. A change of the node's own credentials forgets
//     neither them nor the wrong ones.
//   - The counters of at most 8,192 addresses are kept (golang.org/x/time/rate in an LRU).
//
// # Memory of right keys
//
// The Authority remembers right keys by the hash of their text, with the version of the committed keys. A key is judged
// again as soon as the version differs, so that a revocation holds from the next call on. Wrong keys are not
// remembered.
//
// A remembered key costs 0.24 µs of processor time and no allocation, on one core of an AMD EPYC with SHA
// instructions: half of it is the hash.
//
// Why not otherwise:
//
//   - The text as the key of the memory: the hash keeps secrets out of dumps, and a comparison of texts ends at the
//     first different byte.
//   - hashicorp/golang-lru v0.5, which other dependencies bring: it is without generics, and a key of 32 bytes would be
//     an allocation for each call.
//   - expirable.LRU of golang-lru/v2: its goroutine never ends.
//   - A table of counters by the hash of the address, without eviction: callers with equal hashes would share a limit.
package access
