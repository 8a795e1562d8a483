// Package turns shares the processors of a node among namespaces, before their calls reach a shard.
//
//	Gate    admits pieces of work: as many at a time as there are processors
//	Turn    the work of one goroutine, cut into pieces
//	Crowd   bounds the commits of batches while several namespaces call
//
// A piece is the parsing of a single call, some kilobytes of a batch's lines, a part of a listing, or the answers to a
// batch's commit. Without the gate, each of 64 connections that send batches would parse for milliseconds before Go's
// scheduler comes to the next one, and a neighbour's call would wait for all of them.
//
//   - While a processor is free, a piece passes at once. That costs two uncontended locks.
//   - Otherwise it waits in the line of its namespace. The next piece is of the namespace that has used least, by
//     weight, and the price of a piece is its bytes (Goyal, Vin, Cheng, "Start-Time Fair Queueing", 1996). So a
//     namespace with few pieces waits for about one of the others', and a namespace that is alone for none but its own.
//   - No piece waits for anything but a processor: a Turn pauses before it reads, writes, or waits for room.
//
// # Commits of batches
//
// A storm of batches keeps all processors of a cluster busy, and a neighbour's call waits for them at each of its steps
// from node to node, however fair each line is. So while calls of several namespaces come to a node (a change of the
// namespace in the last second), each namespace has one commit of batches at a time there, of 64 lines for each unit of
// its weight. It then leaves some of the processors idle. A namespace that is alone commits all of its lines.
//
// # Why not
//
//   - Not one commit at a time for all namespaces: a namespace whose shard has no leader would stop the others.
//
//   - Not golang.org/x/sync/semaphore: it admits in the order of arrival, whatever the class of the waiting, so that 64
//     pieces of a storm come before the neighbour's.
//
//   - Not a limit on the connections of a namespace: one connection is enough to be busy all the time, and many idle
//     ones do no harm.
//
//   - Not runtime.Gosched after some lines: the scheduler's queue is in the order of arrival, too.
package turns
