// Package groups keeps the limits of a queue's groups over all shards: how many attempts of one group may be under way,
// how many begin in a second, and the order of due times where only one may be under way. One shard, the queue's owner,
// gives permits to the leaders of all shards, its own included.
//
//	a shard's leader                               Keeper (the owner's leader)
//	--------------------------------------------   ------------------------------------------------------
//	Ask: groups that want permits             -->  parks the ask
//	                                               a round:
//	Standing: under way, first task, …        <--    Look: where do these groups stand?  (to all shards)
//	begins an attempt for each permit         <--    Answer: permits, as far as the limits leave any
//
// The state machines know the attempts under way, so a Keeper remembers only the permits that it gave and that no
// Standing shows yet. It needs no reports, and no time after which a report lapses.
//
// # Rules
//
//   - A leader has one Ask of a queue under way at a time. Its Standing says up to which one all permits are counted
//     (Done). So a permit given to ask n counts beside a Standing until Done reaches n, or a later leader answers.
//   - Owners are ordered, by the epoch of the queue's slot and the leader's term. A leader that has answered the Look
//     of an owner refuses the looks and the permits of earlier owners. So a permit of an earlier owner is in the
//     Standing that the present owner gets, or is never used.
//   - A round gives nothing if one shard does not answer. The limits are strict before they are fast.
//   - In order, the permit is for the earliest task of all shards: one that was begun before, else the earliest due
//     time. No task of the group may be under way or wait for its next attempt, and no wheel may hold a task that is
//     due earlier. An attempt whose turn was given keeps its turn if an earlier task comes late.
//   - Otherwise free permits go to the asks with the best priority, then the earliest due time.
//
// # Rates
//
// The owner has a token bucket for each group that has begun attempts of late (pace.go), and a permit takes a token.
//
//   - A bucket passes at once the attempts of a tenth of a second, and at least one.
//   - No Standing shows whether a permit was used. So a leader tells the owner with its next Ask which permits begin no
//     attempt, and whether an answer was lost. Their tokens go back.
//   - A leader holds few permits, and each for one period of the rate or a second at most. So a receiver that had no
//     place for a long time gets no more attempts at once than usual.
//   - The buckets of a new owner are empty, since it does not know what the earlier one has given. That costs a group
//     one period, but no more than ten seconds: at a rate of one an hour, a change of the owner may add one attempt.
//
// # Costs
//
// A round is one call to each shard, for up to a thousand groups and more. A new wish, or the end of an attempt that
// another shard may wait for, makes a round; so does the passing of a moment (poll), in case a message was lost.
//
// # Why not otherwise
//
//   - Not as package lend does it: reports and loans have a life of a second, and a shard that changes its leader for
//     longer than that is no longer counted. An order cannot be kept by reports at all, since the owner must know that
//     no shard has an earlier task.
//   - Not all tasks of a group in one shard: the shard of a task follows from its id, and a group may be as large as
//     the queue.
//   - Not permits in the log: they would cost a commit for each attempt.
//
// One gap remains: an owner that was deposed without its knowledge, and a shard that changed its leader in the same
// moment, may begin one attempt too many.
package groups
