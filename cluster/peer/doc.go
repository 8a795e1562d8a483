// Package peer is the one port of a node that other nodes know: it carries every Raft group, gossip and gRPC.
//
// The first byte of a connection says what it is for: wireByte and a fixed header for the streams by which all Raft
// groups append entries, groupByte and another header for what else one group has to say, gossipByte for a gossip
// stream, helloByte for a connection that says after its hello what it is for, and 'P', with which every HTTP/2 preface
// begins, for gRPC. Gossip packets use the UDP port of the same number. One port because it is one rule in a firewall,
// one address in the control group's state, and one place where TLS wraps every connection (secure and dial, in
// tls.go): nothing above this package knows whether it is on.
//
// Nodes dial each other by node id. What a node id resolves to is asked at every dial, so an address may change
// without a change of membership. The answer may be several addresses, and any of them may be stale, forged or silent:
// a dial tries one after the other, the next one beside the last after a quarter of a second, and the first node that
// proves to be the right one wins. The proof is a hello before the first byte: the caller names the node that it looks
// for, the node answers with its id. Without keys that is its word, on loopback; with keys the certificate must name
// the node too. Every kind of connection to a node begins so, since none of them would notice in time by itself: an
// address that accepts and says nothing would hold up Raft's exchanges and gRPC's calls until their deadlines, and a
// gRPC connection to the wrong node would last, and refuse each call. The headers say once more for whom they are
// meant, and of which cluster: an acknowledgement from the wrong node would count as the right one's.
//
// The port is open to whoever can reach it, so what has not yet said what it is costs little and is dropped soon; each
// kind of connection has a bound of its own; and without keys the port opens on loopback only.
//
// Heartbeats take no fast path: handled on the transport's goroutine, a heartbeat can raise the term of a node in the
// middle of writing as its leader (hashicorp/raft issue 695). So SetHeartbeatHandler does nothing here.
package peer
