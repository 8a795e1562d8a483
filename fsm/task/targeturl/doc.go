// Package targeturl reads a target's URL: which kind of receiver it names, where that is, and what in it a task goes
// to. It is pure, and a leaf: fsm checks a task's URL with it when the task is scheduled and takes the lane from it,
// and delivery/broker publishes to what it says, so that the two can never read one URL differently.
//
// # The forms
//
//	http://host[:80]/path?query                        a POST; https for TLS (port 443)
//	nats://host[:4222][,host…]/subject                 JetStream; natss for TLS
//	amqp://host[:5672][/vhost]?queue=name              RabbitMQ, a queue by the default exchange; amqps for TLS (5671)
//	amqp://host[:5672][/vhost]?exchange=name[&routing_key=key]
//	redis://host[:6379][/db]?stream=key[&maxlen=n]     XADD, trimmed to about n entries; rediss for TLS
//	kafka://host[:9092][,host…]/topic[?key=text]       kafkas for TLS (the same port)
//
// The vhost is "/" when there is none, and a slash in another's name is %2F. Whatever has other characters than a URL
// may have is percent-encoded as ever. Unknown and repeated parameters are refused: a misspelt one would be a message
// that goes elsewhere.
//
// # What is refused
//
// Credentials, in every form: a URL is shown to whoever may read a task. A node has them from its operator. Fragments.
// NATS subjects that begin with $ or _, and Kafka topics that begin with __: these are the broker's own (on $JS.API a
// message is an order to delete a stream), and a task's author speaks with the credentials of the node. Wildcards,
// which no message can be published to.
//
// The scheme of NATS over TLS is natss and not tls, which NATS itself uses: tls says nothing of NATS to who reads it.
package targeturl
