// Package tracing begins the spans of a node (OpenTelemetry), and knows nothing of where they go.
//
//	span                 kind       begins                                       parent
//	PUT /v1/tasks/:id    server     when the API has found the route of a call   the caller's traceparent
//	commit               internal   when the leader of a shard takes the         the call, also one that came to
//	                                commands of a call, until they are applied   another node
//	deliver              producer   when an attempt of a pushed task begins,     none, and a link to the call that
//	                                until its outcome is known                   scheduled the task
//
// A call that schedules a task leaves its traceparent in the task, where the log, snapshots and backups keep it. So an
// attempt days later, by another leader and after restarts, still finds the call. The task has the traceparent of the
// call's span. Without tracing it has that of the caller.
//
// # Links and children
//
// An attempt begins a trace of its own, with a link to the call. A task may be due in a year, and may be attempted many
// times. A trace that goes on for a year has no end at which a backend could show it, and most drop its late spans.
// With `serve --trace-deliveries child` attempts are children of the call, for backends that do not follow links and
// for tasks that are due soon.
//
// The receiver gets the traceparent of the attempt, so its spans are below the attempt's in both cases.
//
// # Sampling
//
// The caller's decision holds for the call. An attempt is sampled if its call was, linked or child. Calls without a
// traceparent, and attempts of tasks without one, are sampled by the ratio of `serve --trace-ratio`, or as
// OTEL_TRACES_SAMPLER says.
//
// # Cost
//
// A nil *Tracer begins no span. Its methods return before they look at anything, allocate nothing, and cost some
// nanoseconds: BenchmarkOff. No part of a node asks whether tracing is on. A trace context crosses nodes as a text in
// the call's message, and only if the call has a span.
//
// # Why not otherwise
//
//   - Not the instrumentation of contrib (otelhttp, otelgrpc): it names spans by paths or by procedures between nodes,
//     makes one span per message of many calls, and costs allocations while it is off.
//   - Not a span for each step of a shard (advance, grant, settle): one entry carries the steps of hundreds of tasks,
//     and the metrics have their durations.
//   - Not a span for the lease of a consumer: the consumer knows when its work begins and ends.
//   - Not the global provider of OpenTelemetry: tests run several nodes in one process.
package tracing
