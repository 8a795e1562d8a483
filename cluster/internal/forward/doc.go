// Package forward carries calls (package calls) to another node: the one hop that a call may make.
//
//	Client  makes calls to one node; it is a calls.Node
//	Serve   answers the calls of one stream from another node
//
// Two nodes share one gRPC stream for each direction of calls, and the calls to many shards share it. The stream clocks
// itself: calls that wait during the send of a message leave with the next one. So an idle node adds no delay, and a
// busy one sends few messages. Each call has a number, which its answer carries. Answers come in any order.
//
// The receiving node gives calls to its own replicas and to nothing else, so no call can go round in circles.
//
// # Certainty
//
//	the call was not handed to the stream when the stream broke       not proposed
//	the other node refused the stream before it read any of it        not proposed
//	the other node ended the stream cleanly, without an answer        not proposed: a node that stops answers first
//	                                                                  the calls that it has begun
//	the stream broke after the call was handed to it                  unknown; a call that changes nothing counts as not
//	                                                                  proposed, and may be repeated
//
// The bytes outstanding towards one node are bounded, so a node that hangs costs its callers no more than that. Each
// namespace leaves as much of the bound free as it holds, and the namespaces with waiting calls take turns (lines).
//
// # Why not otherwise
//
// Not one unary call for each forwarded call: it costs several times as much at high rates, and the batches that form
// here suit the proposer.
package forward
