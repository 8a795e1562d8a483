// Package load plays the load of a chaos run: callers that schedule, change, cancel and read tasks, and consumers,
// good and bad, that lease and settle them. Two kinds of cluster share the load:
//
//	load.Player ── Operation ──▶ load.Driver ┬─ chaos/workload   real processes, through the Go client
//	                                         └─ chaos/sim        simulated nodes, in memory
//
//	player.go    the table of the scripts, how often each is played, and the driver of their operations
//	scripts.go   scripts: the life of one id each, also of ids that several callers use at once, and of batches
//	schedule.go  schedules, each with one caller that changes it
//	consumer.go  consumers, and how they settle a lease
//
// The rules of the load:
//
//   - A Driver makes single tries and records them. The Player decides which operation is tried, and repeats it until
//     the answer is final.
//   - Draw sets how large the drawn delays are. Config.Weights lists the scripts that a
//     cluster plays more or less often than usual.
//   - All choices come from the seed. Script i asks for the same operations in every run with a seed, whatever the
//     timing. A consumer treats a task that is leased for the n-th time in the same way.
//   - Most ids live a short script, so that their end is beyond doubt. A few hot ids get many calls at once, and only
//     their whole history can be judged.
//   - A payload names the operation that wrote it, so that an arrival shows which call it comes from. It also sets how
//     often the receiver fails the task.
package load
