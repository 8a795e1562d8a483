// Package rabbitmq measures RabbitMQ of Debian's package.
//
//	OneQueue         all tasks wait in one queue; a task due in more than an hour waits in another queue
//	ThreeNodes       the same on three nodes, a majority of which has synced a message before it is confirmed
//	QueuePerSecond   tasks wait in one queue for each second of due instants
//	Plugin           tasks wait in the plugin for delayed messages, in a database of one node that does not sync
//	Intake           tasks wait in three nodes of Belfry before the broker, which take the same messages as the plugin
//
// How the driver uses the service:
//   - A message waits in a queue for its time-to-live. Then it is dead-lettered to the queue that consumers read.
//     Plugin and Intake get the header x-delay instead. Their consumers read from the broker itself.
//   - All queues are quorum queues, on one node except with ThreeNodes. Dead letters are delivered at least once, so no
//     confirmed message is lost between the queues.
//   - Only the message at the head of a queue expires. OneQueue is right for equal delays. With different delays a
//     message waits for those before it. Far-off tasks have a queue of their own, as a user would have it, because one
//     of them would hold up all later tasks.
//   - With QueuePerSecond a message waits at most a second for others. A queue costs the server much, so the number of
//     queues is limited, and with it the spread of due instants.
//   - Version 3.10, killed right after making a queue, was seen to accept nothing into the queue after a restart,
//     although messages in it had been confirmed. The driver waits a second after its start for that reason.
//   - Each caller has a channel. Some callers share a connection. Connections take turns among the nodes, and the first
//     one is to the node that leads the queues.
//   - A batch publishes all messages without waiting, and then waits for all confirms.
//   - A waiting message is out of reach, so it can neither be cancelled nor postponed.
package rabbitmq
