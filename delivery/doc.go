// Package delivery takes one task to one webhook receiver, once.
//
//	Webhook.Deliver       one HTTP request for one granted attempt; returns the attempt's outcome
//	Webhook.DeliverBatch  one HTTP request for many attempts; returns an outcome for each
//	Guard                 decides which addresses a webhook may reach
//	Describe              words a connection's error for last_error
//
// # Division of work
//
//   - The leader of the task's shard decides whether and when there is an attempt, under which fence, how many attempts
//     run towards one destination at a time (its lanes), and the meaning of an outcome: backoff, dead letter, settle.
//   - This package does not retry, queue, limit or remember tasks. An attempt costs memory and goroutines only while it
//     runs, and a receiver that is down or slow costs other receivers nothing.
//   - A circuit breaker is the leader's too: it is credit, fed by outcomes.
//   - The package imports the vocabulary of tasks (packages fsm/task and fsmpb), the JSON writer (package
//     internal/contract), and nothing else of Belfry's.
//
// # Request
//
// A request is a POST of the payload byte for byte, as a CloudEvent in binary mode, with the headers of the contract;
// see headers.
//
//   - A task without a payload gives an empty body and no content-type.
//   - If the queue has secrets, webhook-signature is "v1," and the base64 HMAC-SHA256 of webhook-id, a dot,
//     webhook-timestamp, a dot and the body (Standard Webhooks). It has one signature for each secret, with a space
//     between, so that during a rotation a receiver may hold either secret.
//   - Secrets go into that computation and nowhere else: no log, no error and no metric has them.
//   - A target with auth.jwt adds a token, which Tokens signs for this request alone. A target with
//     auth.client_certificate takes a transport of its own for the certificate, with its own connections and TLS
//     sessions. Without the token or the certificate nothing is sent, and the attempt fails.
//   - Another way to deliver (a broker) is another type with the same methods. The code that wires the types chooses
//     one by the target's scheme.
//
// # Reply
//
//   - The status decides the outcome, as soon as the reply's header has arrived: 2xx is delivered, even if the body
//     after it breaks off.
//   - Redirects are not followed: they could lead past the guard, and turn a POST into a GET.
//   - The body is read for the error text and to keep the connection, at most 64 KiB of it and for at most one second.
//     A receiver that sends more or dawdles only loses its connection.
//   - 410 ends the retries: no further attempt can help.
//   - Retry-After, in seconds or as a date, is passed on with any failure, up to one day.
//
// # Batch
//
// A batch is one POST of content type application/cloudevents-batch+json: a JSON array with one CloudEvent for each
// task. An event carries the values of a single request's headers:
//
//	specversion, type, source   as in a single request
//	id                          the task's webhook-id
//	subject                     the task's id
//	time                        the instant when the task was due
//	belfryattempt               a number
//	belfryfence                 decimal digits in a string: a fence has 64 bits, a CloudEvents integer 32
//	belfryschedule, belfryoccurrence, belfryscheduled
//	                            of an occurrence: its schedule, its number in a string, and the instant of the rule
//	traceparent                 if the task has one
//	datacontenttype             the payload's type
//	data or data_base64         the payload
//
// The payload and the batch's own headers follow these rules:
//
//   - A payload of a JSON type (application/json, or any type with the subtype json or the suffix +json) that is valid
//     JSON becomes the member data, in exactly the bytes that were scheduled.
//   - Any other payload becomes data_base64. So does JSON that is not UTF-8 or is nested more than 60 levels deep: some
//     parsers would refuse such JSON, and the whole batch with it.
//   - A task without a payload has no data, no data_base64 and no datacontenttype.
//   - The request has webhook-id, webhook-timestamp and webhook-signature; the signature covers the whole body.
//   - The request's webhook-id is the batch's own. It begins with "batch_" and is computed from the ids of the events,
//     so that the same events in any order have the same one. A retry seldom has the same events, so receivers should
//     drop repeats by the events' ids.
//
// # Reply to a batch
//
// The reply's status applies to all events, as for a single request: 2xx delivers all, 410 ends the retries of all, and
// any other status fails all, with Retry-After. A 2xx (200 or 207, say) may instead give each event its own result, in
// a JSON object with the member results:
//
//	{"results": [{"id": "msg_…", "status": 200},
//	             {"id": "msg_…", "status": 503, "retry_after": 30, "error": "the database is full"}]}
//
// The service reads such an object by these rules:
//
//   - id is the event's. status is read like the status of a reply. retry_after (seconds) and error (text, cut to 200
//     bytes) may be left out.
//   - If there are results, an event without one has failed. Of two results for one event a failure counts. Ids that
//     were not in the batch are ignored.
//   - Any body that begins with a brace is read as such an object, whatever its content type, since many servers send a
//     wrong one. An object without results delivers all events; so does any other body, or none.
//   - The object may have 64 KiB and 512 bytes for each event, and may take the time of the attempt. If the object is
//     longer, cut short or malformed, the complete results count and all other events have failed, since their results
//     are unknown.
//
// # Addresses
//
// A service that calls any given URL must not become a way into its own network.
//
//   - Guard allows public unicast addresses and the ranges of --allow-webhook-cidr.
//   - Literal addresses are checked when the task is scheduled.
//   - Names are checked in the dialer's Control, on the very address that the socket is about to connect to. A check of
//     a look-up before a dial by name would fail if the name's addresses change in between.
//   - No proxy is taken from the environment, since a proxy would make the check meaningless.
//   - IPv6 forms that carry an IPv4 address (mapped, compatible, translated, NAT64, 6to4, Teredo) are refused whole. A
//     network's own NAT64 prefix is an address like any other: that gateway has to refuse the addresses that Belfry
//     must not reach through it.
//
// # Choices
//
//   - net/http's Transport, not its Client: no redirects, no cookies, no second timeout, fewer allocations.
//   - HTTP/1.1 only, also over TLS. One attempt has one connection, so a connection that dies or hangs harms one
//     attempt. With HTTP/2 it would harm all attempts towards that receiver, and HTTP/2's limits on streams would queue
//     attempts outside the lanes.
//   - A request ends with its attempt, and with the process: the system drops the bytes that the receiver has not
//     acknowledged, and resets the connection (wire). By default it would send them again for a minute and more, and a
//     receiver that was cut off would then get a request that another node has long repeated.
//   - No second try inside an attempt, unless no byte of the request had been written. Connections are kept idle for
//     only four seconds, since common servers close theirs after five (Node, Apache, uvicorn): a request that crosses
//     such a close is a failed attempt.
//   - Go's resolver, not libc's: libc's holds a thread for each look-up and has a limit of threads for the process, so
//     that one dead name server could hold up all other names.
package delivery
