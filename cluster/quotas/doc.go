// Package quotas keeps the quotas of namespaces and keys in a cluster. Package quota decides; this package has its
// parts on the nodes and shards, and carries their messages.
//
//	part of package quota   lives at
//	--------------------    -------------------------------------------------------------------
//	Limiter                 every node: Call, Schedule
//	Allocator, Arbiter      the leader of the shard that owns the subject, for one leadership
//	Level                   the leader of every shard, for one leadership and namespace: Claim
//
// Rules:
//
//   - A namespace is owned by the shard of a slot that its name gives, as a limited queue is. A key likewise.
//   - Claim comes before a command is proposed. Only commands that make a task, or make one larger, need a claim.
//   - A new leadership begins without ceilings, and a new owner without rounds. Neither is in the log.
//
// max_consumers and max_queues are not kept yet.
package quotas
