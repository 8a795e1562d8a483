// Package calls carries calls between nodes in one envelope: a call names its shard and its kind, and holds its request
// as bytes.
//
//	Node     this node or another one: commits commands, and answers calls of other kinds
//	Ask      makes a call, and returns its answer
//	Table    this node: one handler for each kind of call
//	Remote   another node: makes a message of each call and gives the message to a transport
//	Client   a Remote over the stream between two processes
//	Serve    answers the calls of one stream from another node
//	Beliefs  the believed leader of each shard: from Raft, from gossip, from earlier answers
//	Search   one caller's search for a leader: the node to ask next, and the pause before it
//
// The type of its request names the kind of a call. Package router finds the node to ask. chaos/sim has a transport of
// its own.
//
// # To add a call between nodes
//
//  1. cluster/clusterpb: the request and the answer, in calls.proto or, about a node, in peer.proto; then make generate
//  2. its handler: in cluster/replicas/handlers.go if a replica answers, else in cluster/handlers.go
//
// The caller uses Ask, or package router for a shard. No transport changes, and no simulation. A build that does not
// know a kind refuses the call as not proposed. A new kind of error needs a line in each function of errors.go.
//
// # A search
//
//	ask the believed leader; without one, the preferred replica if it is alive, else the replicas in turn
//	  it answers                     → Found
//	  it refuses and names a leader  → ask that node at once; a second name in a row is asked after a pause
//	  it refuses or cannot be asked  → pause, from 5 ms doubling to LastPause; a new belief ends the pause
//
// A Search holds no lock and starts no goroutine, so that both a blocking caller (package router, the calls to the
// control group's leader) and one driven by events (package consume) use it.
//
// # Errors
//
// The errors of package task keep their type and meaning on the way. Any other error arrives as task.ErrUnknown: the
// caller cannot assume anything safer.
//
//	the call was not handed to the stream when the stream broke       not proposed
//	the other node refused the stream, or ended it cleanly            not proposed: it answers first the calls that it
//	                                                                  has begun
//	the stream broke after the call was handed to it                  unknown; only the caller can tell whether a repeat
//	                                                                  is right
//
// # The stream
//
// A call makes one hop at most: the receiving node gives it to its own replicas and to nothing else, so no call can go
// round in circles. Two nodes share one stream for each direction of calls (peer.Stream), and the calls to many shards
// share it. The stream clocks itself: the goroutine of a call sends it, with all calls that have come meanwhile, unless
// another one is sending. So an idle node adds no delay, and a busy one sends few messages. Each call has a number,
// which its answer carries. Answers come in any order.
//
// The bytes outstanding towards one node are bounded, so a node that hangs costs its callers no more than that. The
// namespaces share the bound, and those with waiting calls take turns by bytes (package admission).
//
// Why not one unary call for each forwarded call? It costs several times as much at high rates, and the batches that
// form here suit the proposer. A call that waits for long is one all the same (ReadEvents), since the stream tells the
// other node of no caller that has left.
//
// Why bytes, and not a field of the envelope for each kind? A field needs a case at both ends, and generated code for
// all messages that it may hold: 7,000 lines. The bytes cost one copy of the request, and let the caller encode and the
// handler decode, in place of the stream's goroutines.
package calls
