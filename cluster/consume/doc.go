// Package consume brings due tasks to the consumers that wait at this node, from the leaders of all shards.
//
//	Consumers   holds the waiting consumers, and answers other nodes' demands, too
//	pool        the consumers of one queue with one length of lease
//	supply      one shard as a pool's source of tasks
//	ask         one standing demand of a supply, at one node
//	upstream    all asks at one node, and the stream to it
//	session     the other end of such a stream: another node's demands, and the answers to them
//
// # A pool
//
//   - The pool spreads its need over the shards as standing demands, one for each shard, at the node that leads the
//     shard (see shard/dispatch/desk for that end).
//   - Two nodes share one stream for each direction of asking. Demands at shards led here go the same way, over a pipe
//     in memory.
//   - The pool raises a demand as tasks arrive and consumers come, but only once the demand is half used up, so that
//     one message tops up much. A due task costs one message from the node that leads its shard.
//   - The consumer that has waited longest is served first, at once, with all tasks that have arrived by then, up to
//     its max and a bound in bytes. No consumer waits to fill its max: tasks that arrive while consumers are busy make
//     the next batch.
//
// # Surplus tasks
//
// A demand at one shard does not know of the tasks that are due in another: the demands add up to more than the pool
// needs, by about as much again. The pool takes its demands back as soon as no consumer has waited for a moment, so
// that tasks go to other nodes' consumers while this one's are at work. The pool keeps the tasks that have arrived by
// then for some milliseconds, or as long as its consumers usually take to come back, if that is soon. Then it releases
// them, uncounted: a release and a new grant cost two entries, and would slow slow disks down further.
//
// Where shards have reported a backlog, the pool asks them for exactly the tasks that it needs, from as few shards as
// can give them and in turn. The other shards keep a small demand. So a backlog somewhere does not multiply the
// surplus, and a shard without a backlog is not passed over.
//
// # Consumers that do not wait
//
// A consumer that only looks makes the pool ask all shards whether a task is there. The question travels with the
// demands, and the answer comes behind the tasks. The consumer leaves with no task once every shard has answered, and
// otherwise when its context ends: a shard whose leader is not known, or does not answer, may have a task.
//
// # Failures
//
//   - A demand ends when its shard's leader does. Package calls reports the next leader, and the demand goes there.
//     Without such news the pool tries the demand again, at longer and longer intervals.
//   - The leading node releases the tasks that it could not send. This node releases the tasks that have arrived and
//     that no consumer takes.
//   - A new leader asks the nodes which of the last leases reached them, and gives the other leases back. A node does
//     not take a task of such a lease that arrives late, whatever it is asked about afterwards (Arrived).
//   - A task that is lost while its leader lives comes back when its lease ends.
//
// # Why not otherwise
//
// Not each consumer's call to each shard: a hundred consumers would cost twelve hundred calls, and as many withdrawals
// for each round. Not one shard after the other: a due task would wait for the round to reach it. Not a look from time
// to time: an idle consumer costs nothing here.
package consume
