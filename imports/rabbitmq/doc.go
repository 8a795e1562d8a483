// Package rabbitmq has the source of messages that wait in a queue of RabbitMQ until their time to live is over, when
// they are dead-lettered to an exchange.
//
// # Moving
//
// A message that was read and not acknowledged is hidden from others, and its time to live stands still. So reading
// claims it. Finish acknowledges it once the cluster has its task. All others return to their places in the queue when
// the connection ends, also after a crash: no claim outlasts its import. A message that a crash kept from being
// acknowledged is found by its message-id in the next run. One without a message-id is stored again.
//
// # The due time
//
// RabbitMQ tells neither when a message came into its queue nor when it leaves. The due time is the end of its time to
// live, as counted from the best instant that the message has:
//
//	x-death                        the first death in another queue, which sent the message here
//	timestamp_in_ms, timestamp     the instant at which it was published
//	none of them, or a later death now: the task is late by the time that the message has waited, and never early
//
// Instants in whole seconds count as their ends, so that no task is early.
//
// # Why not
//
//   - The management API: it shows the arguments of a queue, but it is a plugin with a port and a login of its own. The
//     flags of the command tell the arguments.
//   - basic.consume: it has no end, and its window would be full of messages that are refused.
//   - An id by a hash of messages without a message-id: two like messages would be one task.
//   - The delayed-message plugin: it keeps its messages in tables of its own, and no protocol reads them.
package rabbitmq
