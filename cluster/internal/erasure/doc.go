// Package erasure removes the tasks of namespaces that are being deleted, and then the namespaces. It runs at the
// leader of the control group.
//
//	DeleteNamespace (control)   the namespace refuses new work from now on; the operation begins
//	  1  every node says that it knows this
//	  2  a time of calm passes: calls under way end
//	  3  sweep: list the namespace's tasks, tombstones included, page by page; erase each page
//	  4  the sweep has found a task, or has failed: again from 3
//	EndNamespace (control)      policies, grants and the namespace are removed; the operation ends
//
// Rules:
//
//   - Tasks are erased while the nodes of 1 are awaited. Only the last sweep, which finds nothing, must follow 1 and 2:
//     otherwise a task that a node took meanwhile would outlive its namespace, and appear in a later one of that name.
//   - A node that does not answer holds up the end, and not the erasure. Progress names it. An operator brings it back
//     or removes it from the cluster.
//   - Nothing is remembered. A new leader begins with another sweep, which finds only the tasks that are left.
//   - Deletions take turns, so that a small one does not wait for a large one.
//   - All deletions together erase Rate tasks a second, so that calls of other namespaces keep their time.
//   - A page is read through the leaders of the shards, and each task is erased by one command (fsm.Erase) through the
//     router. So a move of slots, a split or a failover in between changes nothing.
//
// Why not one command that erases a whole namespace in a shard? Applying it would stop the shard for as long as it has
// tasks of the namespace. Why not cancel the tasks? A tombstone stays, and a task that runs cannot be cancelled.
package erasure
