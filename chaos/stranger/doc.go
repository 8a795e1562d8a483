// Package stranger forges gossip: it lies to the nodes of a cluster without a gossip key, over their peer ports.
//
// It asks a node for the members first, as a node that joins does, and then sends, by UDP and over TCP streams:
//
//	noise       random bytes, with and without the label of the mesh
//	suspect     a member is suspected, by another one, at a high incarnation
//	dead        a member is dead, at a high incarnation
//	alive       a member lives at another address; or has started again there
//	fakes       thousands of members that do not exist
//	merge       whole states with dead members and fakes
//
// Gossip is a hint for Belfry, so none of it may do more than cost time. The formats are those of hashicorp/memberlist:
// a type byte and a struct in MessagePack, behind the label of Belfry's mesh; in a stream behind the byte that begins a
// gossip stream on the peer port. They are written down here once more since this package speaks from outside.
//
// It leaves to others: when to lie and what must hold meanwhile (faults, check).
package stranger
