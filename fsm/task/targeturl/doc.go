// Package targeturl parses a target's URL: the kind of receiver, its address, and the place there that a task goes to.
//
//	http://host[:80]/path?query                        a POST; https for TLS (port 443)
//	nats://host[:4222][,host…]/subject                 JetStream; natss for TLS
//	amqp://host[:5672][/vhost]?queue=name              RabbitMQ, a queue by the default exchange; amqps for TLS (5671)
//	amqp://host[:5672][/vhost]?exchange=name[&routing_key=key]
//	redis://host[:6379][/db]?stream=key[&maxlen=n]     XADD, trimmed to about n entries; rediss for TLS
//	redis://host[:6379][/db]?list=key[&push=left]      RPUSH, or LPUSH, of the payload alone
//	kafka://host[:9092][,host…]/topic[?key=text]       kafkas for TLS (the same port)
//	rocketmq://host[:9876][,host…]/topic[?tag=text][&keys=text]
//	                                                   hosts of name servers; rocketmqs for TLS (the same port)
//
// The syntax is strict:
//
//   - The vhost is "/" if the URL names none, and a slash in the name of another vhost is %2F.
//   - Characters that a URL cannot have are percent-encoded as usual. A webhook's URL may have them as they are, in the
//     path and in the query: the request encodes them. A percent sign without two hexadecimal digits is refused in
//     both.
//   - Unknown and repeated parameters are refused: with a misspelt one, the message would go elsewhere.
//
// The package is pure, and a leaf. fsm checks a task's URL with it when the task is scheduled, and takes the lane from
// it. delivery/broker publishes to the result of the same parser, so that the two can never read one URL differently.
//
// # Refused URLs
//
//   - Credentials, in every form: every reader of a task sees the URL. A node has them from its operator.
//   - Fragments.
//   - NATS subjects that begin with $ or _, and Kafka topics that begin with __. They belong to the broker (on $JS.API
//     a message is an order to delete a stream), and a task's author uses the credentials of the node. So do RocketMQ's
//     topics that begin with %, rmq_sys_ or schedule_topic_.
//   - Wildcards, which no message can be published to.
//
// Why not tls, NATS's own name, as the scheme of NATS over TLS? A reader does not recognise NATS by it; hence natss.
package targeturl
