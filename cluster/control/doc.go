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
// It also holds the queues' policies, at most MaxQueues of them. Every change of one gives it, and the state, the next
// version, so that "from this version on" can be waited for; a policy that is set to what it is changes nothing. The
// leader checks a policy's fields before it proposes it and applying does not, since limits may differ from build to
// build. The policies carry signing secrets: neither they nor entries with them may be logged or put into an error.
//
// The state is a protobuf message, of some kilobytes without policies. A change makes a new one that shares with the
// old one what did not change, and swaps it; a reader keeps what it got. Not a database and not incremental: it changes
// when nodes come and go and when operators decide, and one policy of 4096 costs a copy of their pointers (0.2 ms,
// where cloning all of them took 3 ms).
package control
