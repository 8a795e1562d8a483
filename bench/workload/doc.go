// Package workload has the workloads that compare services. Each workload is a function of a subject and of sizes. It
// starts the service fresh and returns figures.
//
//	question             load          method
//	how many a second    closed loop   each caller calls again as soon as it has the answer
//	how late             open loop     instants are fixed in advance; lateness and latency count from them
//
// In an open loop, a service or a load that stalls cannot hide the waiting time of delayed calls.
//
// The load runs in this process, on the machine of the service. Every workload measures the load's own processor time,
// because a load that needs as much as the service distorts the figures.
//
// The workloads run inside synctest bubbles, where the tests get exact figures. Only webhooks need real connections.
//
// Package subject runs and calls the service. Package cmd/bench repeats the rounds, and package report computes the
// medians.
package workload
