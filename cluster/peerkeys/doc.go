// Package peerkeys holds the files by which the nodes of a cluster authenticate each other, and reads them again while
// the node runs.
//
//	file     holds                                                             a change takes effect
//	Cert     this node's certificate, then intermediate certificates if any    on new connections
//	Key      its private key                                                   on new connections
//	CA       the certificates of one or more trusted authorities               on new connections
//	Gossip   keys of gossip packets, one a line; the first encrypts            on the next packet
//
// Cert, Key and CA count as one value (see package reload), and Gossip as another.
//
//   - Run reads the files again and again, as package reload does. A receive from Config.Reload makes it judge them at
//     once.
//   - Faulty contents change nothing: the earlier value stays in use, with a warning and a metric. Contents are faulty
//     if a file is missing or cut off, the key does not fit the certificate, the certificate does not name this node
//     or is not from an authority in CA, or if it is not valid now while the earlier one is.
//   - A connection lasts as long as its ends like, also beyond the end of the certificate that opened it.
//   - Open refuses faulty contents, except a certificate that is not valid now: a node that runs alone needs none, and
//     new files make the certificate valid without a restart.
//   - From 30 days before the end of a certificate on, a warning is logged each day, and after the end an error each
//     hour.
//
// # Why not otherwise
//
// Not one value for all four files: a fault in the gossip keys must not hold up a new certificate.
package peerkeys
