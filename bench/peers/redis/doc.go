// Package redis measures Redis as a store of delayed tasks.
//
//	SortedSet   a sorted set of ids by due instant, and a hash of payloads: the usual construction
//	Expiry      a key that expires, and the server's notification of it: a construction from articles
//	Asynq       the task queue github.com/hibiken/asynq
//
// The server keeps an append-only file. It writes no snapshots, because they would fork the server now and then.
// Callers write through the client library's automatic pipelining, the fastest ordinary way into Redis: concurrent
// calls share one pipeline.
//
// SortedSet:
//   - A batch is two commands.
//   - Consumers poll. A script takes due tasks and makes them due again at the end of a lease. The acknowledgement
//     removes a task; after the death of its consumer the task is due again.
//   - One set holds both pending and claimed tasks, which is cheaper for Redis than a second set.
//   - The payload is written before the id, in the same ordered stream, so every visible task has its payload. A crash
//     between the two leaves the payload of a task that was never acknowledged.
//
// Expiry notifies only the clients that listen at that moment.
//
// Asynq:
//   - Consumers are a server with its defaults: one worker a processor. It looks every second for tasks, and every five
//     seconds for due ones.
//   - Due instants are cut to whole seconds, so tasks fire early.
//   - Redis writes to disk every second, as is usual with asynq.
//   - Postponing a task takes a delete and a new task. A crash between the two loses the task, so the bench does not
//     count them as a heartbeat. There are no batches.
package redis
