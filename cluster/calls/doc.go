// Package calls holds the calls between nodes: calls to the shards on another node and to its replica of the control
// group.
//
//	Shards   the calls to a shard, on whichever node it is
//	Node     Shards, and changes of the control group
//	Remote   a Node elsewhere: makes a message of each call and gives the message to a transport
//	Answer   takes a call's message, lets a Node here answer it, and makes a message of the answer
//	Client   a Remote over the stream between two processes
//	Serve    answers the calls of one stream from another node
//
// Package replicas answers for the shards here. Package router finds the node to ask. chaos/sim has a transport of its
// own.
//
// # To add a call between nodes
//
//  1. cluster/clusterpb: the request in Call.op, the answer in CallReply, rare ones in admin.proto; then make generate
//  2. cluster/calls/shards.go: the method of Shards, the method of Remote that makes the message, the case of Answer
//  3. cluster/replicas/answers.go: how a replica here answers
//  4. cluster/router: the choice of the shards that get the call
//
// No transport changes, and no simulation. A new kind of error needs a line in each function of errors.go.
//
// # Errors
//
// The errors of package task keep their type and meaning on the way. Any other error arrives as task.ErrUnknown: the
// caller cannot assume anything safer.
//
//	the call was not handed to the stream when the stream broke       not proposed
//	the other node refused the stream before it read any of it        not proposed
//	the other node ended the stream cleanly, without an answer        not proposed: a node that stops answers first
//	                                                                  the calls that it has begun
//	the stream broke after the call was handed to it                  unknown; a call that changes nothing counts as not
//	                                                                  proposed, and may be repeated
//
// # The stream
//
// A call makes one hop at most: the receiving node gives it to its own replicas and to nothing else, so no call can go
// round in circles. Two nodes share one gRPC stream for each direction of calls, and the calls to many shards share it.
// The stream clocks itself: calls that wait during the send of a message leave with the next one. So an idle node adds
// no delay, and a busy one sends few messages. Each call has a number, which its answer carries. Answers come in any
// order.
//
// The bytes outstanding towards one node are bounded, so a node that hangs costs its callers no more than that. The
// namespaces share the bound, and those with waiting calls take turns by bytes (package admission).
//
// Why not one unary call for each forwarded call? It costs several times as much at high rates, and the batches that
// form here suit the proposer.
package calls
