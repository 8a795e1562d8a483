// Package broker publishes due tasks to message brokers: NATS JetStream, RabbitMQ (AMQP 0-9-1), streams and lists of
// Redis, Kafka, and RocketMQ. Package targeturl describes the targets' URLs.
//
//	              confirmed by                 a repeat is dropped               also
//	NATS          the stream's PubAck          by Nats-Msg-Id = webhook-id,
//	                                           in the stream's window
//	RabbitMQ      the publisher confirm; an    never                             message-id = webhook-id, content-type,
//	              unroutable message is                                          timestamp, persistent
//	              returned: a failure
//	Redis stream  the reply to XADD            never                             a field for each header; payload
//	Redis list    the reply to RPUSH, LPUSH    never                             the payload alone
//	Kafka         all in-sync replicas         if the client itself sent it      key, if the URL has one
//	                                           twice (idempotent producer)
//	RocketMQ      SEND_OK: the disk and the    never                             tag and keys, if the URL has them;
//	              replicas, if the broker                                        message id = webhook-id
//	              waits for them
//
// Publisher.Deliver makes one message of one granted attempt. The task is delivered when the broker has confirmed the
// message by its own means, and not before.
//
// # Division of work
//
//   - The leader of the task's shard decides when there is an attempt, how many attempts run towards one broker, and
//     the meaning of an outcome, as for webhooks (package delivery).
//   - This package does not retry, queue or remember tasks.
//   - This package never creates streams, queues, exchanges or topics. A missing one is a failed attempt, and the next
//     attempt may find it. (A stream or list of Redis is created by its first entry.)
//
// # Message
//
//   - A message is the payload byte for byte. The metadata of a webhook's headers are the message's headers, under the
//     same names: webhook-id, ce-specversion, ce-id, ce-type, ce-source, ce-subject, ce-time, belfry-attempt,
//     belfry-fence, belfry-due, belfry-group (if the task has a group), belfry-schedule, belfry-occurrence and
//     belfry-scheduled (of an occurrence), content-type (if there is a payload), traceparent (if the task has one), and
//     the headers of the target. For Kafka the prefix is ce_ instead of ce-, as in its CloudEvents binding, and for
//     RocketMQ it is CE_, as in CloudEvents' library for Java.
//   - RocketMQ takes no message without a body. One zero byte is the body of a task without a payload, as in the same
//     library.
//   - An element of a Redis list is the payload alone, in the form of the workers that take it: those of Celery,
//     Sidekiq, Laravel or Resque. They recognise a repeat by their own id in the payload. BullMQ, asynq and RQ keep a
//     job in a hash beside a list of ids: a consumer hands tasks to them, by their own libraries.
//   - Messages are not signed: each broker decides which users may publish to it.
//   - A consumer drops repeats by webhook-id, which a list lacks.
//   - The worth of a confirm depends on the broker's configuration: Redis with appendfsync everysec answers before the
//     disk has the entry.
//
// # Connections
//
//   - Each broker (and vhost, or database) has one link, shared by all attempts. A link is one connection; the clients
//     of Kafka and RocketMQ use a few. The first attempt opens the link, and the pool closes the link when there has
//     been no attempt for a while.
//   - A failure of the link ends all attempts on it, and the next attempt opens another. Clients do not reconnect by
//     themselves where that can be switched off, so that reconnecting has one place in the code. At most one connect
//     towards a broker runs at a time, however many attempts wait for it.
//   - An attempt ends in its time even if a client library blocks: the library runs in another goroutine, which ends at
//     the latest when the link is given up. A link is given up when an attempt's time is over and the broker has
//     answered no attempt for Config.Patience.
//   - Each AMQP exchange has a channel of its own, since one message to a missing exchange ends its channel and all
//     messages in progress on it.
//
// # Permitted brokers
//
//   - A node connects only to the brokers that its operator names (Known, --brokers), at the address and port written
//     there, and to addresses that the operator trusts as a whole (--allow-broker-cidr; `belfry local` trusts
//     loopback). There is no delivery.Guard here, and none is needed: a caller that schedules a task cannot make a node
//     dial any other address.
//   - Webhooks may go to any public address, since net/http bounds a hostile receiver's answer. Clients of brokers
//     trust their broker: a wrong length in an answer makes some of them take all memory, or panic in a goroutine of
//     their own, which would end the node.
//   - The same trust covers the addresses to which a named Kafka broker or a name server of RocketMQ sends its clients.
//     NATS servers that a server announces are ignored.
//   - A target gets a broker's credentials only if one entry names each of the target's hosts.
//   - A caller that may schedule tasks may publish everything that the node's user may publish. So the broker should
//     let that user publish what tasks are for and nothing else. In Redis the right to publish includes trimming
//     streams, by maxlen.
//
// # Choices
//
//   - The ordinary client of each broker, not a protocol of our own. Among good clients the one that compiles quickly:
//     the first `go run` compiles all of them. For Redis, redigo takes 0.4 s of processor time, radix 0.8, rueidis 15
//     and go-redis 21. It lacks clusters and sentinels, which no target's URL can name. For Kafka, franz-go takes 15 s,
//     sarama 6 and kafka-go 4. But kafka-go has no idempotent producer, and sarama compiles Kerberos, too, by a module
//     without a release since 2023, and assigns keys to other partitions.
//   - No credentials in URLs, where every reader of a task could read them.
//   - NATS: one request for each message, many in progress on one connection. The client's PublishAsync would add a
//     second bound on messages in progress, beside the lane's. The client's package jetstream takes 1.1 s to compile,
//     and its parent package publishes in the same way.
//   - Redis: pipelines of the waiting entries on one connection, and not one connection for each attempt. Redis 8.6
//     can drop repeats (XADD with IDMP); older versions answer IDMP with a syntax error.
//   - Kafka: no transactions. With a transaction a batch of tasks would succeed or fail together.
//   - RocketMQ: the protocol of its brokers (remoting), hand-written in rocketconn.go: two requests, each of lengths,
//     JSON and a body. Apache's client of this protocol, rocketmq-client-go 2.1.2 of 2023, has no TLS and no dialer to
//     set, keeps one client for the whole process, panics at an odd route, and adds 16 modules and 1.2 MB. Apache's
//     newer client, rocketmq-clients/golang 5.1.2, needs RocketMQ's proxy and logs to files of its own, and its modules
//     of 2020 (OpenCensus) clash with those of gRPC here. Servers from RocketMQ 4.9.4 on understand the requests.
//
// Kafka is tested against kfake, franz-go's fake of the protocol, and not against a real server. The other brokers are
// also tested against real servers, which are killed during the test: `make test-brokers`.
package broker
