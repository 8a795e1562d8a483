// Package quota keeps the limits of namespaces and keys over a whole cluster. It decides; it neither parses calls, nor
// talks to other nodes, nor stores anything.
//
//	quota                 counted at                 divided by                       refused by
//	--------------------  -------------------------  -------------------------------  ------------------------
//	max_payload           the request itself         no division                      the first node, 403
//	calls_per_second      the first node             Allocator → Limiter, tokens      the first node, 429
//	schedules_per_second  the first node             Allocator → Limiter, tokens      the first node, 429
//	max_consumers         the first node             Arbiter → Level, ceilings        the first node, 429
//	max_pending           the shard's leader         Arbiter → Level, ceilings        the shard's leader, 429
//	max_bytes             the shard's leader         Arbiter → Level, ceilings        the shard's leader, 429
//	max_queues            all shards                 Registrar → Roster, names        the first node, 403
//
// Limits holds the quotas of one Subject: a namespace or a key. A call must keep within those of both. Each Subject has
// one owner in the cluster, the leader of a shard. An Allocator, an Arbiter and a Registrar are the owner's memory of
// one term; a new owner begins without any.
//
// # Rates
//
//	Limiter (each node)                        Allocator (the owner)
//	--------------------------------------     ------------------------------------
//	Take, Wait: tokens that are here
//	Draw: wanted, spent without the owner -->  one bucket for the cluster
//	                                      <--  Tokens, or the time until there are some
//
// Rules of the rates:
//
//   - The sum over all nodes is exact, because one bucket gives out all tokens. The bucket holds one second's tokens.
//   - A node draws for the next 20 ms of its own demand. So a load at a single node gets the whole rate, and tokens
//     that lie at a node without a load are few.
//   - A call at a node without tokens waits for one draw, a millisecond. Once the owner has said that there are none,
//     the node refuses without asking until there are some again. A storm of refused calls costs the other nodes
//     nothing.
//   - Nodes that all want more than there is get equal parts.
//   - A node that does not reach the owner goes on at the rate that it had, or at an equal part of the limit if that is
//     more. The owner charges these tokens later. So a cut-off node costs the others up to its part of the rate, or
//     exceeds the limit by it, until it is back.
//   - The bucket of a new owner fills from the beginning of its term on, from a tenth of a second's tokens.
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
//   - Not equal shares of a rate for all nodes: behind a load balancer that keeps connections, all calls of a caller
//     come to one node.
//   - Not shares by the demand of the last moment: a demand that moves to another node finds a share of zero there.
//   - Not counts that all nodes tell each other: they are always old, and a storm passes any limit meanwhile.
//   - Not a hop to the owner for each call: it costs a call more than its parsing.
//   - Not tokens for pending tasks: a task ends without a call, at another node, or by a retention. The count of a
//     shard is exact, a sum of tokens drifts.
//   - Not limits in the state machine: a replica knows its own shard only, and a refusal would cost a commit.
//   - Not golang.org/x/time/rate: a bucket is twenty lines, and its reservations cannot be charged later.
package quota
