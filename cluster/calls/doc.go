// Package calls holds the calls between nodes: calls to the shards on another node and to its replica of the control
// group.
//
//	Shards   the calls to a shard, on whichever node it is
//	Node     Shards, and changes of the control group
//	Remote   a Node elsewhere: makes a message of each call and gives the message to a transport
//	Answer   takes a call's message, lets a Node here answer it, and makes a message of the answer
//
// Package replicas answers for the shards here. Package router finds the node to ask. Package forward is the transport
// between processes, and chaos/sim has one of its own.
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
package calls
