// Package peer is the one port of a node that other nodes know: it carries every Raft group, gossip and gRPC.
//
// The first byte of a connection says what it is for: wireByte and a fixed header for the streams by which all Raft
// groups append entries, groupByte and another header for what else one group has to say, gossipByte for a gossip
// stream, and 'P', with which every HTTP/2 preface begins, for gRPC. Gossip packets use the UDP port of the same
// number. One port because it is one rule in a firewall, one address in the control group's state, and one place where
// TLS wraps every connection (secure and dial, in tls.go): nothing above this package knows whether it is on.
//
// Raft addresses its peers by node id. What a node id resolves to is asked at every dial, so an address may change
// without a change of membership; and since an address may meanwhile belong to another node, or another cluster, the
// header of either kind says for whom it is meant, and the receiver hangs up if that is somebody else. An
// acknowledgement from the wrong node would count as the right one's.
//
// The port is open to whoever can reach it, so what has not yet said what it is costs little and is dropped soon; each
// kind of connection has a bound of its own; and without keys the port opens on loopback only.
//
// Heartbeats take no fast path: handled on the transport's goroutine, a heartbeat can raise the term of a node in the
// middle of writing as its leader (hashicorp/raft issue 695). So SetHeartbeatHandler does nothing here.
package peer
