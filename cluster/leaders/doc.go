// Package leaders knows which node leads a shard, as far as this node can tell, and searches for the leader when that
// knowledge is missing or wrong.
//
//	Beliefs  the believed leader of each shard: from Raft, from gossip, from earlier answers
//	Search   one caller's search: the node to ask next, and the pause before it
//
// # A search
//
//	ask the believed leader; without one, the preferred replica if it is alive, else the replicas in turn
//	  it answers                     → Found
//	  it refuses and names a leader  → ask that node at once; a second name in a row is asked after a pause
//	  it refuses or cannot be asked  → pause, from 5 ms doubling to LastPause; a new belief ends the pause
//
// A Search holds no lock, starts no goroutine and reads no clock, so that both a blocking caller (package router, the
// calls to the control group's leader) and one driven by events (package consume) use it.
package leaders
