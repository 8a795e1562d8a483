// Package certs makes and renews the files by which the nodes of a cluster authenticate each other: the operator's side
// of package peerkeys.
//
//	folder/cluster.pem             secret, stays with the operator: the authority and the gossip keys
//	folder/nodes/NAME/node.pem     the node's certificate
//	folder/nodes/NAME/node.key     its private key, secret
//	folder/nodes/NAME/ca.pem       the certificates of the trusted authorities
//	folder/nodes/NAME/gossip.key   the gossip keys, secret
//
// A node needs a copy of its own folder under nodes, and no other file.
//
// # Rotations
//
// The authority and the gossip key are replaced in three steps. Between two steps the operator copies the files to all
// nodes, so each node knows a key before another node uses it:
//
//	step      the nodes' files          nodes at this step and the step before
//	install   old in use, new known     encrypt and sign with old, which both know
//	use       new in use, old known     use different ones, and both know both
//	remove    new in use                use new, which both know
//
// A repeated step changes nothing, and a step out of order is refused. A node's certificate and key are replaced at
// once: all nodes know the authority.
//
// # A killed process
//
//   - Init and Add build a folder aside and rename it, so a folder is complete or not there.
//   - cluster.pem is one file and replaced as one. The nodes' files follow from it: every command brings them up to
//     date, so a repeated command completes one that was killed.
//   - node.key and node.pem are two files. A process that is killed between them leaves a pair that does not fit, which
//     nodes refuse, Inspect reports and Renew replaces.
//
// # Why not otherwise
//
// ECDSA over P-256, and not Ed25519: all other tools know it, in FIPS 140 mode too, and nodes dial each other too
// rarely for the speed to matter.
//
// Not smallstep's step-ca or HashiCorp's Vault: they are servers, and a node would need one of them to start. Their
// certificates work: peerkeys takes any whose DNS name is NAME.node.belfry. Not cloudflare/cfssl or
// smallstep/crypto: the part that they would save is two templates for crypto/x509, and the steps of a rotation would
// still be ours. Not smallstep/certinfo to show certificates: it prints all of a certificate as openssl does, and an
// operator looks for a name and a date.
//
// Not a revocation list: a certificate ends, and a node that was removed from the cluster's map gets no Raft
// connection. To shut out a stolen certificate earlier, rotate the authority.
//
// Not the names of hosts as proof of a node: its address may change. Hosts stand in a certificate for other tools, and
// so that Renew and the commands that are printed know them.
package certs
