// Package redisapi serves programs that keep delayed work in a sorted set of Redis: its members are the work, and
// their scores are the due times. Such a program gives its Redis client another address, and its work is in the
// cluster.
//
//	server.go      the port: connections and their bounds, the order of commands, the end of a node
//	reader.go      commands, out of the bytes of a connection
//	writer.go      answers, in RESP2 or RESP3
//	command.go     the table of commands, and those about the connection
//	sortedset.go   the commands about keys
//	edit.go        changes of tasks that depend on the task
//	score.go       scores and bounds of scores
//	call.go        calls of the HTTP API within the process, and the texts of their refusals
//
// # Sorted sets and tasks
//
//   - A key is a queue, a member is a payload, and a score is a due time. The id is the key, a colon, and a hash of
//     the member, as package imports/redis makes it. So a second ZADD of a member moves its task, and ZREM and ZSCORE
//     find it without a search.
//   - The set has the tasks that wait: scheduled, ready or between two attempts. A task that a consumer has leased is
//     in no set, as a member that a worker has popped.
//   - ZREM reads the task, and cancels the revision that it has read. Of all workers that remove a due member, one
//     gets 1: the log decides. It is the claim and the receipt, and the work is done at most once, as with Redis.
//   - ZADD with NX, XX, GT, LT or CH reads the task, and makes its revision a condition of the change. A plain ZADD
//     needs no read.
//   - ZPOPMIN leases due tasks and acknowledges them. It never returns a member before its time.
//   - Other tasks of the queue, that were made by the HTTP API, have other ids. Ranges leave them out, since no ZREM
//     could end them.
//
// # The HTTP API within the process
//
// Each command becomes calls of the HTTP API, made by package client on the transport of package inside. So
// the rules for keys, roles, namespaces, quotas, limits, the audit log, metrics and traces exist once. The client
// repeats calls while a shard has no leader, under idempotency keys, so that a failover is a late answer and no
// error. A call costs its JSON once more; the commits of a batch cost far more.
//
// Consecutive ZADD and ZREM commands of a pipeline are one batch, and so are the pairs of one ZADD.
//
// # Why not
//
//   - The backend of package httpapi: the rules for callers would exist a second time.
//   - redcon, for the protocol: version 1.6.4 ends the process at the length 9223372036854775807 of an argument,
//     before any AUTH. It has no bound for the bytes of a command, parses an unfinished command anew with each piece
//     that comes (a command of 280 kB in pieces of 64 bytes takes 5.8 s of a processor), and speaks no RESP3. The
//     parsers of redigo, go-redis and rueidis are a client's: they know no inline commands, and take any length. The
//     reader here is a page long and is fuzzed.
//   - MULTI: the members of one key lie in several shards, so that no transaction spans them. The commands of a MULTI
//     are queued and EXEC refuses them all, so that none is carried out alone.
//   - ZPOPMIN of members that are not due: a program that pops and waits would take tasks out of the cluster early,
//     and lose them with its process.
//   - Scores whose unit is guessed: a wrong guess fires everything at once, or never.
//   - A remembered revision of the members that a range has shown: a pool sends the ZREM on another connection.
package redisapi
