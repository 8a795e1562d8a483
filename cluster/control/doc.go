// Package control runs the control group: Raft group 0, which holds what the whole cluster must agree on (who is in it,
// which shard owns which slots, which nodes hold which shard) and which every node has a copy of.
//
// Its voters are the nodes that formed the cluster; every later node is a non-voter. So each node reads it locally,
// without asking anybody, and as fresh as its log: a little late at worst, never made up. What gossip says is a hint;
// what is here was decided.
//
// On its leader a reconciler compares what is with what should be and takes one step at a time, each of which may be
// repeated: after a crash or a change of leader it simply looks again. Where a decision needs judgement (where to place
// a shard) the leader judges and commits the outcome, so replicas of different builds cannot differ. Moving a shard
// will be more such steps: nothing else in here has to change for it.
//
// The state is a protobuf message of some kilobytes, copied when it changes and swapped whole; a reader keeps what it
// got. Not a database and not incremental: it changes when nodes come and go.
package control
