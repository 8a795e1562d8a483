// Package delivery takes one task to one receiver, once: Webhook.Deliver makes one HTTP request of one granted attempt
// and says what came of it, Webhook.DeliverBatch one request of many. Guard says which addresses a webhook may reach at
// all.
//
// # What it leaves to others
//
// The leader of the task's shard decides whether and when there is an attempt, under which fence, how many run towards
// one destination at a time (its lanes), and what an outcome means: backoff, dead letter, settle. Nothing here retries,
// queues, limits or remembers a task, so an attempt costs memory and goroutines only while it runs, and a receiver that
// is down or slow costs nothing to anyone else. A circuit breaker is the leader's too: it is credit, fed by outcomes.
// This package knows the vocabulary of tasks (package fsm/task) and nothing else of Belfry.
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
// # What a batch is
//
// One POST of content type application/cloudevents-batch+json: a JSON array with one CloudEvent for each task. An event
// says what the headers of a single request say: specversion, id (which is the task's webhook-id), type, source,
// subject (the task's id) and time (when it was due); the extensions belfryattempt (a number), belfryfence (a string of
// decimal digits: it has 64 bits, and CloudEvents' integers 32) and, if the task has one, traceparent; datacontenttype
// and the payload. A payload whose type is JSON (application/json, or anything with a subtype json or the suffix +json)
// and which is JSON is the member data, in the very bytes that were scheduled. Any other is data_base64; so is JSON
// that is not UTF-8 or is nested more than 60 levels deep, which some parsers would refuse, and with it the whole
// batch. A task without a payload has neither, and no datacontenttype.
//
// The request has webhook-id, webhook-timestamp and webhook-signature, the signature over the whole body. This
// webhook-id is the batch's own: it begins with "batch_" and is computed from the ids of the events, so that the same
// events again, in whatever order, have the same one. A retry is seldom of the same events: dedupe on theirs.
//
// The reply's status is that of all events, as for a single request: 2xx delivers all, 410 ends the retries of all, and
// anything else fails all alike, with Retry-After. A 2xx (200 or 207, say) may instead give each event its own result,
// in a JSON object with the member results:
//
//	{"results": [{"id": "msg_…", "status": 200},
//	             {"id": "msg_…", "status": 503, "retry_after": 30, "error": "the database is full"}]}
//
// id is the event's; status is read as that of a reply is; retry_after (seconds) and error (text, of which 200 bytes
// are kept) may be left out. If there are results, an event that they do not name has failed, and of two for one event
// a failure counts. Ids that were not in the batch are ignored.
//
// Any body that begins with a brace is read as such an object, whatever its content type, for many servers name a wrong
// one. One without results delivers all; so does any other body, or none. The object may have 64 KiB and 512 bytes for
// each event, and may take the time of the attempt. If it is longer, cut short or malformed, the results that came
// whole count and all other events have failed: nobody can tell what was to be said of them.
//
// # Addresses
//
// A service that calls any URL it is given must not become a way into the network it stands in. Guard allows public
// unicast addresses and what --allow-webhook-cidr names. Literal addresses are checked when the task is scheduled.
// Names are checked in the dialer's Control, on the very address that the socket is about to connect to: to check a
// look-up and then dial by name again would lose to a name that changes in between. No proxy is taken from the
// environment, which would make the check meaningless. IPv6 forms that carry an IPv4 address (mapped, compatible,
// translated, NAT64, 6to4, Teredo) are refused whole, but the prefix that a network chose for its own NAT64 is an
// address like any other: that gateway has to refuse what Belfry must not reach through it.
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
