// Package httpapi turns HTTP requests into the commands and queries of a cluster, and their results into answers.
//
// It owns the public contract: routes, JSON in and out, limits, problem+json, conditions and idempotency keys, the
// batch stream, and openapi.yaml, which a test holds together with the routes. Which shard a task lives on, who leads
// it and how a command commits is the business of whatever implements Backend; no request is answered here from
// anything but what Backend says.
//
//	contract      what the JSON is                 httpapi/stream   lines both ways on one connection
//	routes.go     which call has which middleware  httpapi/origin   which web pages and hosts may call
//	middleware.go, admission.go, body.go           what calls share
//	tasks, queues, list, dead, lease, settle       handlers of single calls
//	batch, consume                                 handlers of lines
//	parse*, order, key, condition, secret          requests → commands
//	answer, problem                                results → answers
//
// # echo
//
// Routes are groups of echo, with middleware; its error handler words every refusal, and its Binder reads bodies. These
// of its parts are not used:
//   - Middleware of groups: echo then registers a route for every other path below the group, and a wrong method is
//     answered 404 and not 405.
//   - BodyLimit: its refusal names no limit, and the client that is still sending does not see it.
//   - Recover: the package around it needs one more module, for a rate limiter.
//   - RequestID: answers have no such header. Lines of the log about a call have the caller's id for it.
//   - Routes for HEAD: they would stand in every Allow. A HEAD is routed as a GET.
//   - Binding by tags: encoding/json is not strict enough.
//   - Its names in paths: the router leaves them encoded, which a middleware (named) mends.
//
// # Parsing
//
// Requests are read by package contract, which refuses members that the contract does not name and keeps a payload byte
// for byte. Everything is bounded before it is parsed: a body and a line of a batch by Config.BodyBytes, and the memory
// of all calls together by Config.MemoryBytes.
//
// # Calls that are repeated
//
// An idempotency key travels as two hashes: of the key, and of the call's meaning (operation, id, conditions and
// every parsed field, a delay as it was given and not as the instant it came to). So a repeat matches whatever its
// whitespace, order of fields or clock, and a batch line matches the single call that says the same.
//
// # Batch
//
// A batch is three goroutines with bounded space between them: one cuts and parses lines, one commits whatever
// has been parsed while the commit before it ran, one writes answers. There is one commit at a time, so lines about
// one id apply in the order of the lines; its size follows the load by itself. A commit that is refused because the
// shards have too much waiting is tried again with a growing pause for as long as the client stays: the stream is
// slowed down instead of each line being answered 429. Answers wait for a slow reader up to Config.BatchAnswerBytes,
// so that a client that sends all it has before it reads anything works too, within reason; past that, the stream
// stops being read until the client takes its answers. A line over the limit ends the batch, with an answer that says
// so: it may have no end.
//
// # Who calls
//
// Calls carry no credentials yet, so a middleware (refuseForeign) refuses calls that a browser sends for a foreign web
// page: see package origin. No GET has an effect. Answers show the credentials of targets masked (shownValue). A mask
// that the client sends back keeps the stored value.
//
// # Consumers
//
// A lease waits without holding a place among single calls: waiting consumers have their own, larger bound. Whatever
// ends the wait (a task, the time, the caller's leaving, the shutdown of the server) ends it at once, and tasks that
// were granted to a caller that has gone, or that a broken connection left unwritten, are released uncounted. A receipt
// names one lease by task, occurrence and fence; it is checked here for being whole and of the queue, and by the log
// for being current. Settling is idempotent by the receipts, queue calls by nature, so neither keeps idempotency keys.
//
// A stream is a batch's connection with other steps: one leases what there is credit and room for, one reads lines, one
// settles, one writes, and one beats while nothing else is written. Its outbox is small, so a consumer that does not
// read is leased no more, and it knows the tasks in it, so that those which were never written go back.
//
// # Dead letters
//
// Replaying and dropping walk the list page by page, and send each change under the revision that was listed: what
// changes meanwhile is let be. A walk that breaks off says how many it has changed.
//
// Rejected: one commit per line (the price of a commit is per entry), a fixed chunk size (a lone line would wait for
// company), and concurrent commits of one stream (two lines about one id could change places).
package httpapi
