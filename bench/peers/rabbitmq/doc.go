// Package rabbitmq measures RabbitMQ of Debian's package, without plugins: a message waits in a queue for its
// time-to-live, and is dead-lettered to the queue that consumers read. Both are quorum queues, on one node, and dead
// letters go out at least once, so nothing that was confirmed is lost on the way between them.
//
// Only the message at the head of a queue expires. [OneQueue] has one queue in which all wait: right for equal
// delays, and for others each waits for those before it. Only who waits for an hour or longer does so in another queue:
// nobody would put such tasks before short ones, and one of them would hold up all that come after it for a day.
// [QueuePerSecond] has a queue for each second of due
// instants, in which that is a second at most; a queue costs the server much, so there is a limit to how far the
// instants may spread. And a server (3.10) that was killed right after it had made a queue was seen to take nothing
// into it again, whatever was confirmed there; so the driver waits a second at its start.
//
// Each caller has a channel, and some share a connection. A batch is publishing without waiting, and then waiting for
// all confirms. A message that waits cannot be reached: neither cancelled nor put off.
package rabbitmq
