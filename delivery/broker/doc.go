// Package broker publishes due tasks to message brokers: NATS JetStream, RabbitMQ (AMQP 0-9-1), Redis Streams and
// Kafka. Publisher.Deliver makes one message of one granted attempt, and the task is delivered when the broker has
// confirmed it, by the broker's own means and by nothing less. What a target's URL may say is in package targeturl.
//
// # What it leaves to others
//
// As package delivery does for webhooks: when there is an attempt, how many run towards one broker, and what an
// outcome means, is for the leader of the task's shard. Nothing here retries, queues or remembers a task. Streams,
// queues, exchanges and topics are never made here: one that is missing is a failed attempt, and the next may find
// it. (A Redis stream needs no making.)
//
// # What a message is
//
// The payload byte for byte. The metadata that a webhook's receiver gets as headers are the message's headers, under
// the same names: webhook-id, ce-specversion, ce-id, ce-type, ce-source, ce-subject, ce-time, belfry-attempt,
// belfry-fence, belfry-due, content-type (if there is a payload), traceparent (if the task has one), and the headers
// of the target. Of brokers with headers, Kafka has ce_ for ce-, as its CloudEvents binding says.
//
//	              confirmed by                 a repeat is dropped               also
//	NATS          the stream's PubAck          by Nats-Msg-Id = webhook-id,
//	                                           in the stream's window
//	RabbitMQ      the publisher confirm; an    never                             message-id = webhook-id, content-type,
//	              unroutable message is                                          timestamp, persistent
//	              returned: a failure
//	Redis         the reply to XADD            never                             a field for each header; payload
//	Kafka         all in-sync replicas         if the client itself sent it      key, if the URL has one
//	                                           twice (idempotent producer)
//
// Messages are not signed: whom a broker lets publish is its own matter. A consumer drops repeats by webhook-id. How
// much a confirm is worth is the broker's configuration: Redis with appendfsync everysec answers before the disk has
// it.
//
// # Connections
//
// One for each broker (and vhost, or database), shared by all attempts, opened when the first comes, closed when
// there was none for a while. Its failures end all attempts that are under way on it, and the next attempt opens
// another; clients do not reconnect by themselves where that can be switched off, so that there is one place where it
// happens. At most one connect towards a broker is under way, however many attempts wait for it.
//
// An attempt ends in its time whatever a client library does meanwhile: it is called beside the attempt, and what it
// holds up ends when the connection is given up. That happens when an attempt's time is over and the broker has
// answered nobody for Config.Patience. An AMQP channel ends with all that is under way on it when one message names
// an exchange that does not exist, so each exchange has its own.
//
// # Which brokers
//
// Only those that the operator of the node names (Known, --brokers), at the address and port that are written
// there, wherever that is, and any at addresses that he trusts as a whole (--allow-broker-cidr; `belfry local`
// trusts loopback). There is no delivery.Guard here, and none is needed: who schedules a task cannot make a node
// dial anything else. For webhooks any public address will do, since net/http bounds whatever a hostile receiver
// may answer. The clients of brokers were made for brokers that their users trust: a wrong length in an answer
// makes some of them take all memory, or panic in a goroutine of their own, and so the node would end. For the same
// reason a named broker is followed to where it sends its clients (Kafka), and NATS servers that a server tells of
// are ignored.
//
// A target gets a broker's credentials only if that entry names each of its hosts. Whoever may schedule a task may
// publish what the node's user may publish: so the broker should let that user publish what tasks are for and nothing
// else. In a Redis that includes to trim streams, by maxlen.
//
// # Choices
//
//   - The ordinary client of each broker, not a protocol of our own.
//   - No credentials in URLs, where whoever may read a task could read them.
//   - NATS: one request for each message, many under way on one connection; the client's PublishAsync would bring a
//     second bound on what is under way, beside the lane's.
//   - Redis: pipelines of what waits, on few connections, and not one connection for each attempt. Redis 8.6 can drop
//     repeats (XADD with IDMP); older ones take that for a syntax error.
//   - Kafka: no transactions. They would make a batch of tasks one, with one fate.
//
// Kafka is tested against kfake, franz-go's fake of the protocol, and not against a real server; the others also
// against the servers themselves, which are killed meanwhile: `make test-brokers`.
package broker
