// Package delivery takes one task to one receiver, once: Webhook.Deliver makes one HTTP request of one granted attempt
// and says what came of it. Guard says which addresses a webhook may reach at all.
//
// # What it leaves to others
//
// The leader of the task's shard decides whether and when there is an attempt, under which fence, how many run towards
// one destination at a time (its lanes), and what an outcome means: backoff, dead letter, settle. Nothing here retries,
// queues, limits or remembers a task, so an attempt costs memory and goroutines only while it runs, and a receiver that
// is down or slow costs nothing to anyone else. A circuit breaker is the leader's too: it is credit, fed by outcomes.
// This package knows fsm's vocabulary and nothing else of Belfry.
//
// # What a request is
//
// A POST of the payload byte for byte, as a CloudEvent in binary mode, with the headers of the contract; see headers.
// A task without a payload is an empty body, and then no content-type. If the queue has secrets, webhook-signature is
// "v1," and the base64 HMAC-SHA256 of webhook-id, a dot, webhook-timestamp, a dot and the body (Standard Webhooks): one
// for each secret, with a space between, so that during a rotation a receiver may know either. Secrets go into that
// computation and nowhere else: no log, no error and no metric has them. Another way to deliver (a broker) is another
// type with the same methods, chosen by the target's scheme by whoever wires them.
//
// # What a reply is
//
// Its status decides, and decides when the reply's header is there: 2xx is delivered whatever happens to the body
// after it. Redirects are not followed: they could lead past the guard, and turn a POST into a GET. The body is read
// for the error text and to keep the connection, at most 64 KiB of it and for at most one second; a receiver that
// sends more or dawdles loses its connection, nothing else. 410 says that no further attempt can help. Retry-After,
// in seconds or as a date, is passed on with any failure, a day of it at most.
//
// # Addresses
//
// A service that calls any URL it is given must not become a way into the network it stands in. Guard allows public
// unicast addresses and what --allow-webhook-cidr names. Literal addresses are checked when the task is scheduled.
// Names are checked in the dialer's Control, on the very address that the socket is about to connect to: to check a
// look-up and then dial by name again would lose to a name that changes in between. No proxy is taken from the
// environment, which would make the check meaningless.
//
// # Choices
//
//   - net/http's Transport, not its Client: no redirects, no cookies, no second timeout, fewer allocations.
//   - HTTP/1.1 only, also over TLS. One attempt has one connection, so a connection that dies or hangs harms one
//     attempt; with HTTP/2 it would be all that are under way to that receiver, and its limits on streams would queue
//     attempts where no lane sees them.
//   - No second try inside an attempt, except where not one byte of the request had been written. Connections are kept
//     idle only four seconds, since common servers close theirs after five (Node, Apache, uvicorn): a request that
//     crosses such a close is a failed attempt.
//   - The resolver is Go's, not libc's: that one holds a thread for each look-up and has a limit of them for the
//     process, so that one dead name server could hold up all other names.
package delivery
