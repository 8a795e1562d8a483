// Package asynq measures the task queue github.com/hibiken/asynq on Redis: tasks are put off by ProcessAt, and a server
// with its defaults handles them, with as many workers as there are processors, which looks for tasks every second and
// for due ones every five. It keeps due instants in whole seconds, cut off, so tasks fire early.
//
// Callers share a client whose commands are pipelined automatically, which asynq takes as it takes any Redis client.
// The Redis writes to the disk every second, as is usual for it. asynq has no batches, and a task cannot be put off
// further but by deleting it and making a new one, between which a crash loses it: that is not counted as a heartbeat.
package asynq
