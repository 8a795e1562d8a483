// Package forward takes calls from a node that cannot answer them to one that can: the one hop that a call may make.
//
// Between two nodes there is one gRPC stream for each direction of asking, and many shards' calls share it. It clocks
// itself: what waits while a message is being sent rides in the next one, so an idle node adds no delay and a busy one
// sends few messages. Every call has a number and its answer carries it; answers come as they are ready, in any order.
//
// The receiving side gives calls to the replicas on its own node and to nothing else, so no call can go round in
// circles. Besides commands and reads these are loans of permits for limited queues, and changes of a queue's policy,
// which go to the control group's leader: for them, too, it matters whether they were certainly not sent.
//
// What is certain is kept certain. A call was certainly not proposed if it had not been handed to the stream when that
// broke, if the other side refused the stream before it read any of it, or if it ended the stream in order without an
// answer: a node that stops answers all that it has begun first. A call that was handed over to a stream that broke
// is, for a command, unknown; for a read that is no question, and it may be asked again.
//
// What may be outstanding towards one node is bounded in bytes, so that a node which hangs costs its callers no more
// than that. One unary call per forwarded call was turned down: it costs several times as much at the rates that
// matter, and the batches that form here are those that the proposer wants anyway.
package forward
