// Package workload is what a fault run does to the cluster while things break: it schedules, replaces, patches,
// touches, cancels, fires and reads tasks through random nodes, receives what is delivered, and records all of it.
//
// Every choice comes from a seed: task i does the same in each run with it, whatever the timing. Most ids live a short
// script of one to three calls, one after the other, so that what must come of them is beyond doubt; a few hot ids are
// called by many workers at once, at most some 150 times each, for what can only be judged as a whole.
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
