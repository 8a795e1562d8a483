// Package peer is the one port of a node for other nodes: it carries every Raft group, gossip, streams of messages and
// gRPC.
//
//	first byte   connection
//	wireByte     a stream by which all Raft groups append entries, or one of messages; a header follows
//	groupByte    all other messages of one Raft group; another header follows
//	gossipByte   a gossip stream
//	helloByte    a hello, and then one of the other bytes
//	'P'          gRPC: every HTTP/2 preface begins with it
//
// Gossip packets use the UDP port of the same number. One port is one rule in a firewall, one address in the control
// group's state, and one place where TLS wraps every connection (secure and dial, in tls.go): no package above this one
// knows whether TLS is on.
//
// # Dials
//
//   - Nodes dial each other by node id. Every dial looks the id's addresses up anew, so an address may change without a
//     change of membership.
//   - Any of the addresses may be stale, forged or silent. A dial tries one after the other, the next one beside the
//     last after a quarter of a second, and the first node that proves to be the right one wins.
//   - The proof is a hello before the first byte: the caller names the node that it looks for, and the node answers
//     with its id. Without keys the caller trusts that answer, on loopback; with keys the certificate must name the
//     node too.
//   - Every kind of connection to a node begins with a hello, since none of them would notice a wrong node in time by
//     itself. A silent address would hold up Raft's exchanges and gRPC's calls until their deadlines. A gRPC connection
//     to the wrong node would last, and refuse each call.
//   - The headers name the intended node and its cluster once more: an acknowledgement from the wrong node would count
//     as the right one's.
//
// # Streams of messages
//
// A Stream carries the calls of one node to another, or the demands of its consumers (package calls, package consume).
// A frame is a kind, a length and a message. One write sends it, by the goroutine that has the message, and one
// goroutine at the other end reads it. Each end sends a beat when it has nothing else to send, so that a node that
// hangs is noticed as well as one that is gone.
//
// An end in order, and a refusal, are frames of their own: the caller knows then that the other node has begun nothing
// that it has not answered. When the connection just closes, the caller knows nothing.
//
// # Certificates
//
//   - Each connection uses the certificate and the authorities that the node has when the connection opens: see package
//     peerkeys. A rotation ends no connection.
//   - Both ends verify the other's certificate. A node that refuses one says so in its log, and the reason with it.
//   - TLS sessions are never resumed, so each connection is verified anew.
//
// # Strangers
//
// Any host that can reach the port can open connections. So a connection that has not yet told its purpose costs little
// and is dropped soon; each kind of connection has a bound of its own; and without keys the port opens on loopback
// only.
//
// # Why not gRPC for streams of messages
//
// A message over gRPC passes two goroutines more at each end, a queue of frames and the windows of two flow controls,
// and costs two system calls more. The rare calls use gRPC: each is a line of peer.proto.
//
// # Why not a fast path for heartbeats
//
// A heartbeat that the transport's goroutine handles can raise the term of a node in the middle of writing as its
// leader (hashicorp/raft issue 695). So SetHeartbeatHandler does nothing here.
package peer
