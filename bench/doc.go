// Package bench is the folder of what measures Belfry side by side with the services that a user would pick instead.
// It has no code of its own.
//
//	subject       what a workload asks of a service under test, and how a server runs as a process of this machine
//	belfry        Belfry in three processes with a user's defaults, as a subject
//	peers/...     one package a peer
//	workload      the workloads, each a function of a subject and a size
//	report        medians, spread, ratios and goals, as Markdown, JSON and pictures
//	cmd/bench     the command
//
// The folder is a module of its own, so that the drivers of the peers are no dependencies of Belfry: commands run there
// by `go run -C bench ./cmd/bench`. It builds the Belfry that it measures in the folder above, with the dependencies of
// that module.
//
// What is compared runs in one run on one machine, in turns, and nothing is tuned that a user would not get by default:
// a figure means little on another machine, and the ratio of two figures means much. Every figure stands beside what
// the service's acknowledgement is worth, because a service that keeps nothing is always fast.
//
// What the parts of Belfry cost (wheel, store, codec, proposer) is measured where they are, by testing.B.
package bench
