// Package fsm is the state machine of one shard: committed commands in, the same state everywhere out.
//
// It holds the shard's tasks in memory, the timing wheel that says which of them is due, the lanes that due tasks wait
// in, the keys it remembers, and the tombstones. Commands and results are messages of package fsmpb. The nouns, limits
// and errors that other packages share are in package task.
//
// # Determinism
//
// Nothing here reads a clock, a random number or a Go map's order: applying the same entries gives the same state,
// byte for byte where it counts, whatever the process, the build or the snapshot it was restored from. "Now" is the
// instant in the entry. Policy arrives in the commands as plain numbers that the leader wrote. The wheel's handles,
// the slab's and the intern tables' numbers differ between replicas and never leave this package.
//
// Every change of a task takes a number from one counter. It is the task's revision, its place among tasks of equal due
// time, and, when the change is a grant, its fence. A command that changes many tasks takes one number for each, so
// that no two changes share one: the order in the wheel is then total, and a replica restored from a snapshot pops
// equal dues in the order in which the others do.
//
// # Memory
//
// A pending task is one 64-byte record (ids up to 24 bytes inline), an 8-byte index entry and one blob with the rest,
// the idempotency key of the call that made it included.
// What only begun or finished tasks need (attempts, fence, places in lists) is a second record, made when a task comes
// due. None of this holds a pointer, so that the garbage collector has nothing to scan: see the slab package. Targets
// are interned, and so is what else many tasks say alike (retries, labels, content type, expiry), in tables that are
// bounded, because a target for each task would fill them.
//
// # Queues
//
// A queue in use is one object, about 800 bytes: what applying commands must know of its policy (its rule), and its
// counts. The policy itself is the control group's, and rides in no command: a shard's leader puts the rules into the
// log when they change, so that an Advance stays a few bytes however many queues there are. A rule moves no task. Where
// one waits is named by its queue and destination alone, and an attempt that has begun ends as it began: what it needs
// to know (whether a consumer has it, when its lease ends) it carries itself.
//
// All counts are kept where the state hash is kept, by lift and land, and so no path can forget them. They say the same
// on every replica, and are no part of the hash. What comes due within a minute, an hour and a day is counted by the
// instants in the wheel, in steps of four seconds; a count of the wheel's own slots would be free, but as coarse as
// hours, and wrong by what was rescheduled. Reading costs about a microsecond at any number of tasks.
//
// # State hash
//
// Hash is a sum of one hash a task, kept up to date change by change, so that replicas can be compared at any time at
// no cost. It is computed from field values, never from marshalled bytes. A snapshot carries it, a restore checks it.
//
// # Not here
//
// Raft, disks, the clock and the network are the shard's. How long a backoff is, how many attempts a lane may have in
// flight, which consumer gets how many, and how long a tombstone stays of which its queue says nothing, are the
// leader's, who writes them down as instants and numbers: replicas of different builds could otherwise differ.
package fsm
