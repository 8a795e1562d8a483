// Package httpapi turns HTTP requests into the commands and queries of a cluster, and their results into answers.
//
// It owns the public contract: routes, JSON in and out, limits, problem+json, conditions and idempotency keys, the
// batch stream, and openapi.yaml, which a test holds together with the routes. Which shard a task lives on, who leads
// it and how a command commits is the business of whatever implements Backend; no request is answered here from
// anything but what Backend says.
//
// # Parsing
//
// Requests are read by a small scanner of its own rather than by encoding/json, because the contract is stricter than
// that package: an unknown field, a field given twice, a wrong type and a byte after the end are each refused by
// name, and a payload is kept byte for byte. It neither recurses nor allocates by depth, so nesting costs nothing, and
// it makes a batch line cost about a microsecond. Everything is bounded before it is parsed: a body, and a line of a
// batch, by Config.BodyBytes, and what all calls together hold by Config.MemoryBytes.
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
// stops being read until the client takes its answers.
//
// Rejected: one commit per line (the price of a commit is per entry), a fixed chunk size (a lone line would wait for
// company), and concurrent commits of one stream (two lines about one id could change places).
package httpapi
