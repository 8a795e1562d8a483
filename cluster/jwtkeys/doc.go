// Package jwtkeys makes the keys by which a cluster signs the tokens of its webhooks, and signs with them.
//
//	New, Seal, IsCurrent  a key pair of the control group's state, as its leader makes and stores it
//	KeySet                the public keys, for GET /.well-known/jwks.json
//	Signer                signs the tokens of the attempts that a node makes
//
// The state of the control group holds the keys, so that each node signs and publishes the same ones, whatever becomes
// of leaders and nodes. Package control makes them and takes them away:
//
//	           published                signs
//	new key    from its making on       from the middle of the overlap on; the first key of all: at once
//	older key  until the overlap ends   until then
//
// Rules of keys and tokens:
//
//   - A token lives for task.TokenLife. The shortest overlap is three times as long, so that each token ends while its
//     key is published, even if the clocks of nodes and receivers differ by a minute or two. A receiver may keep the
//     set of keys for five minutes, and so has a new key before it signs.
//   - An overlap of 0 is for a key that has leaked: the new key signs at once, and the older ones are gone.
//   - Private keys are sealed as the secrets of queues are, if the cluster has keys for that (see package seal). A node
//     without the cluster key publishes the set and signs nothing. Its attempts fail with the reason.
//   - A backup has no private keys, and a restored cluster makes its own. So a copy of a cluster, for a test say,
//     cannot sign as the original does.
//   - The id of a key is the thumbprint of RFC 7638.
//
// # Cost
//
// A token takes 32 µs with EdDSA (Ed25519) and 1.1 ms with RS256 (2048 bits) of one processor (BenchmarkSign, on a
// virtual Xeon). A request over TCP costs more than the former. So each attempt gets a token of its own, and
// no cache has to know which token ends too soon. EdDSA is the default for its cost; RS256 is for receivers that know
// nothing else. The first key for RS256 takes the leader a tenth of a second to draw.
//
// # Why not otherwise
//
// go-jose is in the program for package oidc, and writes sets of keys (RFC 7517). golang-jwt/jwt is as well kept, but
// has no sets of keys, and would be a second library for one form of tokens. lestrrat-go/jwx has both, and brings six
// modules. Not ES256: it costs as much as EdDSA, and receivers without EdDSA know RS256.
//
// Not a key for each node: a receiver that keeps the set would not know the keys of a node that has just joined. Not
// keys in files, as those of certificates: an operator would have to bring them to all nodes, in the right order, at
// each rotation.
package jwtkeys
