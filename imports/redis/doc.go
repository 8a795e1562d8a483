// Package redis has the sources that are sorted sets in a Redis, whose scores are due times.
//
//	SortedSet   members that are payloads
//	Asynq       asynq:{QUEUE}:scheduled and :retry, of task ids, beside a message for each task
//	BullMQ      bull:QUEUE:delayed, of job ids, beside a hash for each job
//	Sidekiq     schedule and retry, of jobs as JSON
//
// # Moving
//
// Claim is a script that moves members to the sorted set belfry-import:KEY, with their scores. No worker looks there.
// Finish removes them from it, with the hash of the job, and GiveBack moves them back. A member whose score has changed
// since it was read is not claimed. All four schedulers take a due member by removing it from its set, so that a member
// goes to one side only.
//
// # Reading
//
// A set is read by pages from the lowest score on. Each page begins at the last score of the page before, and leaves
// out the members that were read there.
//
// # Why not
//
//   - Pages by rank: workers remove members between two pages, so that others would be passed over.
//   - ZSCAN: it may yield a member twice, and has no order.
//   - go-redis: redigo is in the program already, for deliveries. It speaks to one server, so that a Redis Cluster is
//     not supported.
package redis
