// Package httpapi turns HTTP requests into the commands and queries of a cluster, and their results into answers.
//
//	internal/contract                                 the JSON of requests and answers
//	httpapi/internal/stream                           lines both ways on one connection
//	internal/admission                                turns and parts of namespaces and callers
//	httpapi/internal/repeating                        the rules of previews and schedules, windows, calendars
//	httpapi/origin                                    the web pages and hosts that may call
//
//	server, config, routes                            the HTTP server, and the table of calls with their needs
//	call, limits, middleware, door, body, audit       the door: who may make a call, and with how much
//	core, do                                          the part that all services share; commands, guarded if need be
//	tasks, batch, events, schedules, calendars,       services: the handlers of the calls about one resource, and the
//	queues, dead, consume, settle, keys, namespaces,  part of the Backend that they need
//	operations, bulk, node
//	spec, policy, parse, parseschedule, command, list   requests → commands and queries
//	answer, answerschedule, receipt, problem          results → answers
//
// The package owns the public contract: routes, JSON in and out, limits, problem+json, conditions and idempotency keys,
// the batch stream, and openapi.yaml, which a test compares with the routes. The implementation of Backend finds a
// task's shard and its leader, and commits commands. Every answer about tasks comes from Backend.
//
// # Services
//
//   - Each resource has a service: a type with the handlers of its calls, and with the part of the Backend for them.
//     All services share one core, which knows only the tasks and calendars of the Backend.
//   - The door is the Server's own: a service sees only calls that were let in.
//
// Why not:
//
//   - A package for each resource: a schedule is listed as tasks are, and a policy is read with the members of a task.
//     The packages would export most of what they have to each other.
//
// # echo
//
// Routes are groups of echo, with middleware. Its error handler words every refusal, and its Binder reads bodies. The
// package does not use these parts of echo:
//   - Middleware of groups: echo then registers a route for every other path below the group, and answers a wrong
//     method with 404 instead of 405.
//   - BodyLimit: its refusal names no limit, and a client that is still sending does not see it.
//   - Recover: its package needs one more module, for a rate limiter.
//   - RequestID: answers have no such header. Log lines about a call have the caller's id.
//   - Routes for HEAD: they would stand in every Allow header. A HEAD is routed as a GET.
//   - Binding by tags: encoding/json is not strict enough.
//   - Its decoding of names in paths: the router leaves some names encoded, so a middleware (named) decodes them.
//
// # Parsing
//
//   - Package contract reads requests. It refuses unknown members and keeps a payload byte for byte.
//   - All input is bounded before it is parsed: a body and a batch line by Config.BodyBytes, a settle's body by
//     Config.SettleBytes, and the memory of all calls together by Config.MemoryBytes.
//
// # Repeated calls
//
//   - An idempotency key travels as two hashes: of the key, and of the call's meaning (operation, id, conditions and
//     every parsed field; a delay as given, and not the resulting instant).
//   - So a repeat matches regardless of white space, order of fields and clock, and a batch line matches the single
//     call with the same meaning.
//
// # Schedules
//
//   - A schedule is kept among the tasks, under its id with an @ behind. It is read, listed and deleted as a task is,
//     and no call about tasks can name its record. Its occurrences have ids with @ and a number: such an id names a
//     task for every call about a task that is there, and for none that makes one.
//   - A patch, a backfill and a deletion depend on the stored schedule (revise). The node reads it, and makes the
//     revision that it has read a condition of the command. The idempotency key's hash is that of the request, since a
//     repeat may find another schedule.
//   - Grants that are limited to ids reach a schedule and its occurrences by the schedule's id.
//
// Why not:
//
//   - A command that patches a schedule: every replica would have to check the merged rule, and replicas of different
//     builds may know different time zones.
//
// # Batch
//
// A batch is three goroutines with bounded space between them: one splits and parses lines, one commits the lines
// parsed during the previous commit, and one writes answers. A small batch that arrives in one piece needs only one
// goroutine.
//
//   - There is one commit at a time, so lines about one id apply in order. The size of commits adapts to the load.
//   - A commit that the shards refuse as overloaded is repeated with growing pauses for as long as the client stays.
//     The stream slows down instead of each line being answered with 429.
//   - Up to Config.BatchAnswerBytes of answers wait for a slow reader, so that a client may send everything before it
//     reads. Past that limit the server stops reading the stream until the client takes its answers.
//   - A line over the limit is answered with this reason, and its rest is dropped. One of more than 16 times the limit
//     ends the batch, since it may never end.
//
// Why not:
//
//   - One commit per line: the price of a commit is per entry.
//   - A fixed chunk size: a lone line would wait for others.
//   - Concurrent commits of one stream: two lines about one id could change places.
//
// # Callers
//
//   - routes.go has the table of endpoints: each route with its need, a role and a reach. A route without a need does
//     not start. A test compares the table with the security requirements in openapi.yaml.
//   - Each handler but those of open routes gets a *call in the place of echo's context (callOf): the caller, the
//     namespace and the limits. It costs one allocation. A value in echo's context would cost a map, and one in the
//     request's context a copy of the request.
//   - The routes below /v1/namespaces/:ns are the short ones a second time, with the same handlers. Rewriting the path
//     before the router would copy the request and its URL for each call.
//   - A namespace that is not there and one that the caller's grants do not reach are refused alike, before any other
//     check, with the answer for a task that does not exist. Receipts and cursors of another namespace are invalid.
//   - The queue of a task that exists is known only to its shard. A caller whose grants reach only some queues changes
//     a task in two steps (do.go): the node reads it, and makes the revision that it has read a condition of the
//     change. Other callers pay nothing for this.
//   - A middleware (refuseForeign) refuses calls that a browser sends for a foreign web page; see package origin. No
//     GET has an effect.
//   - Answers show the credentials of targets masked (shownValue). A mask that the client sends back keeps the stored
//     value.
//   - Parsing, listing and the answers to a batch are pieces of work for which namespaces take turns: see package
//     admission. A body is read, and a commit awaited, outside of a piece.
//   - Long calls hold places (door.go). Their callers are checked again every half second (watch), so that a
//     revoked key ends them.
//
// # Consumers
//
//   - A waiting lease holds no place among single calls: waiting consumers have their own, larger bound.
//   - A task, the time, the caller's leaving, or the server's shutdown ends the wait at once. Tasks that were granted
//     to a caller that has gone, or that a broken connection left unwritten, are released uncounted.
//   - A receipt names one lease by namespace, queue, task, occurrence and fence, and is signed under a secret that all
//     nodes share. This package checks the signature and the queue; the log checks that the lease lasts, and is of the
//     queue.
//   - Settling is idempotent by the receipts, and calls about queues are idempotent by nature, so neither keeps
//     idempotency keys.
//   - A stream is a batch's connection with other steps: one leases tasks within credit and room, one reads lines, one
//     settles, one writes, and one sends heartbeats while no other line is written.
//   - A stream's outbox is small, so that a consumer that does not read gets no more tasks. The outbox knows its tasks,
//     so that unwritten ones go back.
//
// # Dead letters
//
// Replaying and dropping walk the list page by page. Each change holds only for the listed revision, so that tasks
// changed meanwhile stay as they are. A walk that breaks off reports how many tasks it has changed.
package httpapi
