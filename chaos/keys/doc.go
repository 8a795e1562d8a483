// Package keys puts keys and namespaces to the test during a round: it makes, rotates and revokes API keys while nodes
// die, and tries them at each node.
//
//	loop        repeats                                                           recorded as
//	load's key  a new key for the load of a namespace; the old one is revoked     entries
//	            after the calls under way
//	trials      a key with the role read is made, rotated and revoked; after      entries, trials
//	            each change every node is tried with all texts of the key, then
//	            again once each node must know
//	visitors    calls without a key to every node                                 trials
//	lists       keys, namespaces, and a page of tasks in each namespace           rolls
//
// The Keeper only records. Package check judges the record (invariant 15). Most changes happen amid faults, and prove
// little then, because a node may be out of touch. Finish therefore waits until the cluster is whole, and plays the
// last three loops once more.
//
// The load reads its keys from files, as a service does whose keys an operator rotates. No text of a key is recorded.
package keys
