// Package stranger forges gossip: it lies to the nodes of a cluster without a gossip key, over their peer ports.
//
// A Stranger first asks a node for the members, as a joining node does. It then sends these lies, by UDP and over TCP
// streams:
//
//	noise       random bytes, with and without the label of the mesh
//	suspect     a member is suspected, by another one, at a high incarnation
//	dead        a member is dead, at a high incarnation
//	alive       a member lives at another address; or has started again there
//	fakes       thousands of members that do not exist
//	merge       whole states with dead members and fakes
//
// Gossip is a hint for Belfry, so a lie may only cost time.
//
// The formats are those of hashicorp/memberlist: a type byte and a struct in MessagePack, behind the label of Belfry's
// mesh. A stream starts with the byte that begins a gossip stream on the peer port. Package stranger defines the
// formats once more, because it attacks from outside.
//
// Package faults decides when to lie, and check decides which invariants must hold meanwhile.
package stranger
