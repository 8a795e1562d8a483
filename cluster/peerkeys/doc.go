// Package peerkeys holds the files by which the nodes of a cluster authenticate each other, and reads them again while
// the node runs.
//
//	file     holds                                                             a change takes effect
//	Cert     this node's certificate, then intermediate certificates if any    on new connections
//	Key      its private key                                                   on new connections
//	CA       the certificates of one or more trusted authorities               on new connections
//	Gossip   keys of gossip packets, one a line; the first encrypts            on the next packet
//
// Cert, Key and CA count as one value, and Gossip as another. A value changes as a whole or not at all.
//
//   - Run reads the files every two seconds. New contents count once two looks in a row find the same, so a copy under
//     way is not judged. A receive from Config.Reload makes Run judge them at once.
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
// Not fsnotify: it reports nothing on some network file systems, loses the folders that Kubernetes exchanges by
// symbolic links, and may drop events, so that a poll is needed beside it. Four small files every two seconds cost
// nothing. Not modification times: rsync -t and cp -p set them back. Not cloudflare/certinel or the watchers of
// step-ca: they hold a certificate, but neither the authorities nor the keys of gossip, and they take a file as it is,
// without a look at the name, the authority or the validity.
//
// Not one value for all four files: a fault in the gossip keys must not hold up a new certificate.
package peerkeys
