// Package workload is the load of a fault run on a cluster of real processes. It drives the scripts and consumers of
// package load through the Go client, and adds the parts that only real processes need:
//
//	Run              scripts: the life of one id each
//	Bulk             thousands of plain tasks a second, by batch
//	Burst            many tasks that are due at one instant
//	Race             cancels shortly after the due times of many tasks
//	Chase            a read after each move of a task
//	Probe            a write to each shard ten times a second, to see when the shard takes one
//	Repeat           schedules, and calls about them
//	Steady           one schedule that is not changed
//	Consume          consumers, good and bad, of pulled tasks; without it these tasks stay in their queues
//	Listen           the receiver of pushed tasks
//	Forge            a consumer of another queue, which tries to settle the load's leases
//	Keeper           API keys and namespaces, which are changed and tried at each node
//	Storm            another namespace that takes all it can get; neither recorded nor judged
//	Drain, ReadAll   the end: wait until everything has come to rest, and read the tasks that are left
//	CountSchedules   the end of schedules: read their counts, and the occurrences that never arrived
//
// The parts live and are recorded as follows:
//
//   - A Load is made for one round, with a seed, a prefix of its ids and a recorder of its own. Consumers and receiver
//     live until the round is drained.
//   - The bulk makes the load large. Each of its ids is scheduled and delivered, or cancelled in a few cases. Recording
//     an id costs microseconds.
//   - A request is one client call with one attempt, to one node. The record holds one call for it, or one for each
//     line of a batch.
//   - Repeats carry the same idempotency key and count as tries of one operation. The client could repeat by itself,
//     but then the record would lose the answers in between, and these may be dishonest errors.
//
// The package leaves the faults to package faults, and every judgement to package check.
package workload
