// Package redis has the sources that are in a Redis: sorted sets, whose scores are due times, and the lists of Celery.
//
//	SortedSet   members that are payloads
//	Asynq       asynq:{QUEUE}:scheduled and :retry, of task ids, beside a message for each task
//	BullMQ      bull:QUEUE:delayed, of job ids, beside a hash for each job
//	Sidekiq     schedule and retry, of jobs as JSON
//	Celery      the hash unacked, and lists: messages with an ETA
//
// # Moving
//
// Claim is a script that moves members to the sorted set belfry-import:KEY, with their scores. No worker looks there.
// Finish removes them from it, with the hash of the job, and GiveBack moves them back. A member whose score has changed
// since it was read is not claimed. The schedulers with sorted sets take a due member by removing it from its set, so
// that a member goes to one side only. Celery's workers keep messages in their memory, and so they must be stopped. Its
// messages wait in the sorted set belfry-import:celery, scored by their ETAs.
//
// # Reading
//
// A set is read by pages from the lowest score on. Each page begins at the last score of the page before, and leaves
// out the members that were read there. A list is read from its right end, so that claims move no element that is read
// later.
//
// # Why not
//
//   - Pages by rank: workers remove members between two pages, so that others would be passed over.
//   - ZSCAN: it may yield a member twice, and has no order.
//   - go-redis: redigo is in the program already, for deliveries. It speaks to one server, so that a Redis Cluster is
//     not supported.
package redis
