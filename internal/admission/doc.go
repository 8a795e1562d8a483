// Package admission decides whose work is next, and how much of it there may be, where many share one thing: the
// processors of a node, its memory, the entries of a shard. Callers share by a name: the namespace, the key or the
// address.
//
//	Queue  whose piece is next: a start-time fair queue with weights
//	Gate   makes goroutines wait until their pieces may begin: as many at a time as there are processors, or one a name
//	Turn   the work of one goroutine, cut into pieces for a Gate
//	Pool   how much a name may hold: as much as it leaves free, or a fixed part
//	Mix    whether several names have come lately, or one is alone
//
// What is shared, and how:
//
//	where             shared                                       by         how
//	httpapi           processors: parsing, listing, answering      namespace  Gate, as many pieces as processors
//	httpapi           commits of batches, while several call       namespace  Gate, one of each name; Mix
//	httpapi           memory of bodies and answers                 namespace  Pool
//	httpapi           single calls under way                       namespace  Pool
//	httpapi           batches, streams, waiting leases             caller     Pool, with a fixed part for each namespace
//	cluster/calls     bytes of calls towards another node          namespace  Pool
//	cluster/calls     the next message                             namespace  Queue, by bytes
//	shard             bytes of calls that wait for an entry        namespace  Pool
//	shard             calls and settles of the next entry          namespace  Queue, by bytes and by number; Mix
//	shard/dispatch    grants of due tasks in the next entry        namespace  Queue, by tasks
//
// # The queue
//
// Each piece has a price, such as its bytes, and the line that has been served the least by weight is next (Goyal, Vin
// and Cheng, "Start-Time Fair Queueing", 1996). A name with few pieces so waits for about one of the others', and a
// name that is alone for none but its own. The price may be known only after the piece was taken.
//
//   - A line that was empty counts as served as much as the line whose turn it is, so past idleness is no credit.
//   - A line that is passed over (NextOf) has no claim from that time.
//   - When no piece waits, all lines are equal again.
//
// # The pool
//
// A name may hold as much as it leaves free. So no name locks another out, whoever came first, and nothing is cut off.
// With n names that take all they can get, each ends at one part of n+1, and one more part is free for the next.
//
// # Bounds that stay elsewhere
//
//   - quota: rates and levels hold over the whole cluster, and are drawn from their owners.
//   - dispatch.Crowd: how many attempts may be under way depends on whether their receivers are well, and a name that
//     is alone with healthy receivers needs three quarters.
//   - The turns of groups in a lane (dispatch): they are one of several orders there, beneath the priority.
//   - The pace of entries (shard): it finds the length of an entry that the disk allows, and shares nothing.
//   - The bytes that one stream from another node may have under way (calls.Serve): at the bound the reader stops, and
//     the sender shares the rest.
//
// # Why not
//
//   - Not golang.org/x/sync/semaphore: it admits in the order of arrival, whatever the name, so that 64 pieces of a
//     storm come before the neighbour's.
//   - Not runtime.Gosched after some work: the scheduler's queue is in the order of arrival, too.
//   - Not turns of equal count: a call of a storm may be a thousand times as large as the neighbour's.
//   - Not an equal part of a pool for each name that holds some: a lone name would get all, and the second one nothing.
//   - Not a queue of calls that wait for a place in a pool: a call that waits is a call under way.
//   - Not one commit of batches at a time for all namespaces: one whose shard has no leader would stop the others.
//   - Not a limit on the connections of a namespace: one connection is enough to be busy all the time, and many idle
//     ones do no harm.
package admission
