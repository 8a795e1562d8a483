// Package nats measures the message schedules of NATS JetStream (nats-server 2.12 and later).
//
//	OneNode            one server, which syncs each write
//	ThreeNodes         three replicas with the default sync interval of two minutes: a majority has the message in memory
//	ThreeNodesSynced   three replicas that sync each write: a majority has the message on disk
//
// How the driver uses the service:
//   - A message with the header Nats-Schedule waits in a stream, on a subject of its own. When it is due, the server
//     publishes it to the target subject.
//   - A pull consumer reads the target subject. The stream deletes acknowledged messages (work-queue retention).
//   - There is one stream, as users have it, and so one Raft group.
//   - Callers share a few connections. The client joins messages that are sent at the same time.
//   - A batch publishes all messages without waiting, and then waits for all acknowledgements.
//   - A cancel purges the task's subject.
//   - A touch publishes the task again on the same subject. A user has the payload at hand for that, so the driver
//     keeps it.
//   - The driver writes the schedule header itself, because the client library's option cuts the instant to whole
//     seconds.
package nats
