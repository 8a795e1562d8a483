// Package workload is the load of a fault run on a cluster of real processes. It drives the scripts and consumers of
// package load through the Go client, and adds the parts that only real processes need:
//
//	Run      scripts: the life of one id each
//	Bulk     thousands of plain tasks a second, by batch
//	Probe    a write to each shard ten times a second, to see when it takes one
//	Consume  consumers, good and bad, of pulled tasks; without it they stay where they are
//	Listen   the receiver of pushed tasks
//	Drain, ReadAll   the end: until everything has come to rest, and the tasks that are left then
//
// A Load is made for one round, with a seed, a prefix of its ids and a recorder of its own. Consumers and receiver live
// as long as the round, until it is drained. The bulk is for the numbers: an id of it is scheduled, sometimes
// cancelled, and comes; recording it costs microseconds.
//
// Each request is one client call with one attempt, to one node, and is recorded on its own. Repeats carry the same
// idempotency key and count as tries of one operation. The client could repeat by itself, but then the record would
// lose the answers in between, which is where dishonest errors hide.
//
// It leaves to others: breaking (faults), and every judgement (check).
package workload
