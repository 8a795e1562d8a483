// Package quota keeps the limits of namespaces and keys over a whole cluster. It decides; it neither parses calls, nor
// talks to other nodes, nor stores anything.
//
//	quota                 counted at                 divided by                       refused by
//	--------------------  -------------------------  -------------------------------  ------------------------
//	max_payload           the request itself         no division                      the first node, 403
//	calls_per_second      the first node             package lend: Limiter, tokens    the first node, 429
//	schedules_per_second  the first node             package lend: Limiter, tokens    the first node, 429
//	max_consumers         the first node             Arbiter → Level, ceilings        the first node, 429
//	max_pending           the shard's leader         Arbiter → Level, ceilings        the shard's leader, 429
//	max_bytes             the shard's leader         Arbiter → Level, ceilings        the shard's leader, 429
//	max_queues            all shards                 Registrar → Roster, names        the first node, 403
//
// Limits holds the quotas of one Subject: a namespace or a key. A call must keep within those of both. Each Subject has
// one owner in the cluster, the leader of a shard. A Lender, an Arbiter and a Registrar are the owner's memory of one
// term; a new owner begins without any.
//
// # Rates
//
// A Limiter has a lend.Meter for each rate, which borrows from a lend.Lender at the owner under lend.OfRates. Package
// lend has the rules.
//
// # Levels
//
//	Level (each holder)                        Arbiter (the owner)
//	--------------------------------------     ---------------------------------------------
//	Claim, Release: below the ceiling
//	Ask: no room below the ceiling        -->  a round:
//	Trim: the ceiling becomes the use     <--    1. all holders
//	Raise: the new ceiling                <--    2. use + wants + a part of the rest by weight
//
// Rules of the levels:
//
//   - The holders of max_pending and max_bytes are the shards. A leader knows the tasks of its shard exactly, and
//     whether a call makes a task or changes one. A namespace at its limit may still change, fire and cancel its tasks.
//   - The sum of the ceilings is never above the limit. A Raise counts only after a Trim of the same round, and rounds
//     are ordered by the owner's term. So neither two owners at a time nor lost or repeated messages exceed a limit.
//   - Ceilings need no renewal: a level that is not near its limit causes no messages.
//   - As the rest becomes smaller, so do the parts. A limit of n tasks is full after some log(n) rounds.
//   - A new leader of a shard has a ceiling of 0, and asks at its first Claim. Its use counts at once.
//   - A holder that does not answer counts with its last ceiling. Without one, as under a new owner or after a move of
//     its slots, it counts with the rest of the limit for 30 Trips, which is longer than an election, and then with its
//     part of the limit. The limit may be exceeded only then, by as much as the holder's use is above its part. A call
//     that finds no room because of a silent holder is not told that a quota is exceeded: ErrUnsure.
//   - A ceiling belongs to one value of the limit. A changed limit makes it void, so a lower one holds at once. While
//     the use is above it, the ceilings are 0, and no holder takes more, wherever tasks end.
//   - The holders of max_consumers are the nodes that answer. A node that dies gives its part back once it counts as
//     gone; the consumers of one that is only cut off stay beyond the limit, without tasks.
//   - Slots that move carry their tasks along. The shard that gets them may be above its ceiling afterwards, and then
//     takes no more. The ceiling of the shard that they leave becomes void, so that they make no room there.
//
// # Queues
//
// A queue has no shard of its own, and one name counts once over all shards. So the owner keeps the names, as a list
// that the shards give it, and new names that are admitted and not listed yet. Nodes remember names for 30 s, so that
// only a new queue costs a message. A refusal has no time to try again: queues go by an operator's call, or with the
// last of their tombstones. A name that was admitted goes on while the owner cannot be asked.
//
// # Why not otherwise
//
//   - Not tokens for pending tasks: a task ends without a call, at another node, or by a retention. The count of a
//     shard is exact, a sum of tokens drifts.
//   - Not limits in the state machine: a replica knows its own shard only, and a refusal would cost a commit.
package quota
