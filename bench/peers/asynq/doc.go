// Package asynq measures the task queue github.com/hibiken/asynq on Redis.
//
//	schedule   ProcessAt
//	consume    a server with its defaults: one worker a processor
//	polling    every second for tasks, every five seconds for due ones
//	lateness   due instants are cut to whole seconds, so tasks fire early
//	batch      none
//	touch      none
//
// How the driver uses the service:
//   - Callers share a client with automatic pipelining, which asynq accepts like any Redis client.
//   - Redis writes to disk every second, as is usual with asynq.
//   - Postponing a task takes a delete and a new task. A crash between the two loses the task, so the bench does not
//     count them as a heartbeat.
package asynq
