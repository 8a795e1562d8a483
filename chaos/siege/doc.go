// Package siege lays siege to a cluster: load and faults at once, round after round, each judged by itself.
//
// A siege has one stand, whose nodes and data stay. A round has a seed of its own, made of the siege's and its number,
// its own record, and its own ids, so that what is kept in memory is bounded by a round, and a siege can count millions
// of tasks. In a round the load has a head start; then strikers, each with its own sequence of choices, strike one kind
// of fault after the other, so that as many faults as there are strikers are under way at once; then everything is
// healed, every shard must take writes again, what is due comes to rest, all is read once more, and the verdict is
// spoken.
//
// A plan takes the place of the strikers where a test wants certain faults in a certain order. From ten minutes on,
// with all faults, two of eight rounds are drills, which are such plans: leaders killed with nothing else broken, a
// start of all nodes with overdue tasks, silent gossip, forged gossip, each alone. Faults at random hardly ever come
// alone, and some invariants can only be broken by a fault that does: without one the report calls them not exercised.
// Gossip can be forged only where nodes have no keys, which is on loopback: where the stand has a network, this drill
// has another stand.
//
// What no fault explains is a breach beside the invariants: a node that died by itself, a panic or a data race in a
// log, an attempt of a task that had been settled in a round before. The nodes run on while a round is judged: what
// they do then counts with the next one, and after the last one with the siege.
//
// The record of a round that held is deleted. Of one that did not it stays, with the nodes' logs, and the report names
// the seed and the round with which the same choices are made again. Timing is not repeated: which faults meet which
// calls differs from run to run, and a choice that finds its nodes taken by another striker is passed over.
//
// It leaves to others: what is called (workload), how things are broken (faults), on what stage (stand), and what must
// hold (check).
package siege
