// Package quotas keeps the quotas of namespaces and keys in a cluster. Package quota decides; this package has its
// parts on the nodes and shards, and carries their messages.
//
//	part of package quota   lives at
//	---------------------   -------------------------------------------------------------------
//	Limiter                 every node: Call, Schedule
//	Roster                  every node: Queue, Policy
//	Level of consumers      every node: Consumer
//	Level of tasks, bytes   the leader of every shard, for one leadership and namespace: Claim
//	Lender, of package      the leader of the shard that owns the subject, for one leadership
//	lend, Arbiter, Registrar
//
// Rules:
//
//   - A namespace is owned by the shard of a slot that its name gives, as a limited queue is. A key likewise.
//   - Claim comes before a command is proposed, and is kept until the command is applied or lost, even if its caller
//     leaves before. The command is proposed in the leadership that counts the claim, or not at all.
//   - A Trim is answered by a shard's leader that has proved to be one since.
//   - Only commands that make a task, bring back a dead letter or give a task new content need a claim, so a namespace
//     at its limits may still read, cancel, settle and delete. A repeat of a remembered call needs none, and gets its
//     first answer.
//   - A new leadership begins without ceilings, and a new owner without rounds. Neither is in the log.
//   - The rounds of an owner come after those of the owner before it, also if the slot has moved to another shard.
//     Their numbers begin with the epoch of the slot.
package quotas
