// Package etcd measures etcd with a key for each task, on three members.
//
//	key        tasks/ and the id of the task
//	value      the due instant and the payload
//	schedule   one put
//	batch      one transaction with a put for each task, of at most 128 (the server's default limit)
//	cancel     one delete
//	touch      one put of the whole value
//
// How the driver uses the service:
//   - The members run with their defaults: a majority has synced an entry of the log before the acknowledgement.
//   - The service shows the cost of an ordered, replicated and synced write. Keys have no index by due instant, so
//     nothing fires, and the workloads that need a fire leave the service out. A second key for each task, with the
//     due instant in front, would double each write.
//   - Callers share a few clients. A client spreads its calls over the members.
//   - A user has the payload at hand for a touch, so the driver keeps it.
package etcd
