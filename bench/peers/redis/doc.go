// Package redis measures Redis as a store of delayed tasks.
//
// [SortedSet] is what is usually built on it: a sorted set of ids by due instant and a hash of payloads. Both are
// written by the client library's automatic pipelining, which is the fastest ordinary way into Redis: what many
// callers want at the same time is one pipeline. A batch is two commands. Consumers poll; a script takes what is due
// and puts it back for the time of a lease, so a task whose consumer dies is due again, and the acknowledgement
// removes it. One set does for both the pending and the claimed, which is cheaper for Redis than a second one.
//
// The payload is written before the id, in the same ordered stream: a task that can be seen has its payload, and a
// crash between the two leaves a payload of a task that was never acknowledged.
//
// [Expiry] is what articles propose: a key that expires, and the server's notification of it. It tells only those who
// listen at that moment.
//
// The server keeps an append-only file, and no snapshots, which would fork it now and then.
package redis
