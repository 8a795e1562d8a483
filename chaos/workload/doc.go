// Package workload is what a fault run does to the cluster while things break: it schedules, replaces, patches,
// touches, cancels, fires and reads tasks through random nodes, alone and by batch, receives what is delivered, leases
// and settles what is pulled, and records all of it. Its parts:
//
//	Run      scripts: the life of one id each
//	Bulk     thousands of plain tasks a second, by batch
//	Probe    a write to each shard ten times a second, to see when it takes one
//	Consume  consumers, good and bad, of what is pulled; without it that stays where it is
//	Listen   the receiver of what is pushed
//	Drain, ReadAll   the end: until everything has come to rest, and what is left then
//
// A Load is made for one round, with a seed, a prefix of its ids and a recorder of its own. Consumers and receiver live
// as long as the round, until it is drained.
//
// Every choice comes from the seed: script i and batch i do the same in each run with it, whatever the timing, and a
// consumer does the same with a task that it gets for the n-th time. Most ids live a short script of one to three
// calls, one after the other, so that what must come of them is beyond doubt; a few hot ids are called by many workers
// at once, at most 200 times each with their settles, for what can only be judged as a whole. The bulk is for the
// numbers: an id of it is scheduled, sometimes cancelled, and comes; recording it costs microseconds.
//
// Each request is one client call with one attempt, to one node, and is recorded on its own. Repeats carry the same
// idempotency key and count as tries of one operation. The client could repeat by itself, but then the record would
// lose what was answered in between, which is where dishonest errors hide.
//
// A payload names the operation that wrote it, so that an arrival says which call it comes from, and says how often the
// receiver shall fail it.
//
// It leaves to others: breaking (faults), and every judgement (check).
package workload
