// Package nats measures NATS JetStream's message schedules (nats-server 2.12 and later): a message with the header
// Nats-Schedule waits in a stream, on a subject of its own, until the server publishes it to the target subject,
// which a pull consumer reads. What was acknowledged by the consumer is deleted (retention by work queue).
//
// [OneNode] is one server that syncs each write. [ThreeNodes] replicates the stream to three, with the sync interval
// that the server has by default (two minutes), so an acknowledgement says that the message is in the memory of a
// majority. It is one stream, because that is what users have, and so one Raft group.
//
// Callers share a few connections, whose client joins what is sent at the same time. A batch is publishing without
// waiting, and then waiting for all acknowledgements. A task is cancelled by purging its subject, and put off by
// publishing it again on the same subject, for which a user has the payload at hand; so it is kept here. The client
// library's own option for schedules cuts the instant to whole seconds; the header is written here.
package nats
