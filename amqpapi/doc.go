// Package amqpapi is a proxy before a RabbitMQ, for programs that publish messages with a delay (AMQP 0-9-1). A message
// with the header x-delay becomes a task. Its target is the broker, which gets the message when it is due. All else
// passes to the broker and back. So users of RabbitMQ's plugin for delayed messages change the address of the broker,
// and nothing in their programs.
//
//	server.go     connections of clients, each with one to the broker
//	handshake.go  credentials and limits of both peers
//	session.go    the goroutines of a connection, heartbeats and the end
//	channel.go    frames of both peers: those that pass, and those of kept messages
//	confirms.go   the numbers of confirms, which differ between client and broker
//	message.go    kept messages: the tasks that they become, and the words of refusals
//	ask.go        questions to the broker under the rights of the client
//	outbox.go     bytes for a peer
//
// # Which messages are kept
//
//   - Those with the header x-delay, of more than 0 ms, to any exchange. The plugin looks at the header only on
//     exchanges of its own type. So no node has to know which these are, and a producer that does not declare its
//     exchange, at a node that has just started, is delayed, too.
//   - All those to the exchange belfry.queues. They become tasks without a target, in the queue that the routing key
//     names, and consumers lease them.
//
// A declaration of an exchange with the type x-delayed-message is made with the type in its arguments, on a channel of
// the intake's own. So the client's channel outlives the answer that the plugin still has the exchange.
//
// # The client's rights
//
// At its due time a node publishes the message under its own rights. So the intake asks the broker first whether the
// client may publish it: with a publish on the client's own connection that RabbitMQ refuses for another reason
// (permit). RabbitMQ has no method that only asks. The answer for an exchange and a routing key holds as long as the
// connection.
//
// # Confirms
//
//   - A kept message is confirmed once its task is committed, and a repeat of the commit carries its first idempotency
//     key. The broker's confirms are renumbered.
//   - A message that becomes no task closes the channel with the reason. One that may be taken later is refused alone
//     (nack) if the client has asked for confirms.
//   - channel.close and connection.close wait for the kept messages. So a client without confirms learns of each
//     failure.
//
// # Bounds
//
//   - Kept messages of a connection: 4 MiB, and 256 beside those of the commit under way. Of all: 64 MiB. The client is
//     not read beyond them, so that it slows down; after 10 s the channel is closed.
//   - A peer that does not read stops the reading of the other one. Frames are 128 KiB at most.
//   - Each side has heartbeats of the intake's own. A commit that takes long never delays one.
//
// # Calls of the API
//
// Tasks are made by package client on the API of this node, without a connection (package inside). So keys, namespaces,
// quotas, limits and the audit log hold for messages as for calls.
//
// # Why not
//
//   - The backend of package httpapi: the checks of callers, quotas and limits would exist a second time.
//   - A broker of its own: consumers, bindings and acknowledgements are RabbitMQ's, and stay there.
//   - Package amqp091-go: it is a client. Package amqpwire tells why the frames are not read by another library.
//   - The header only on exchanges that were declared as x-delayed-message, and a note of them in Belfry or among the
//     arguments of the exchange: AMQP has no method to read the arguments, and a note that is late lets a message
//     through at once.
//   - A copy of the client's password for the publish at the due time: it would be stored with the task.
//   - Transactions of kept messages: they are refused. Those without such a message pass.
package amqpapi
