// Package load plays the load of a run of chaos: callers that schedule, change, cancel and read tasks, and consumers,
// good and bad, that lease and settle them. It is one load for two kinds of cluster:
//
//	load.Player ── Operation ──▶ load.Driver ┬─ chaos/workload   real processes, through the Go client
//	                                         └─ chaos/sim        simulated nodes, in memory
//
//	scripts.go    scripts: the life of one id each, a few calls one after the other
//	hot.go        ids that are called by several callers at once
//	batch.go      scripts that send many operations in one call
//	consumer.go   consumers, and what they do with a lease
//	operation.go  an operation as plain data, which a driver turns into a call of its kind
//
// A Driver makes single tries and records them. The Player decides what is tried, and repeats an operation until the
// answer is final. Draw says how large the drawn delays are, Script.Weight how often a script is played.
//
// All choices come from the seed: script i does the same in each run with it, whatever the timing, and a consumer does
// the same with a task that it leases for the n-th time. Most ids live a short script, so that their end is beyond
// doubt; a few hot ids are called so often that only their whole history can be judged.
//
// A payload names the operation that wrote it, so that an arrival shows which call it comes from, and says how often
// the receiver shall fail it.
package load
