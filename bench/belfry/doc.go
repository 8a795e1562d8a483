// Package belfry makes Belfry a subject of the bench: a cluster of three processes on loopback. The processes start as
// `belfry local` starts them, with the default configuration. An acknowledgement means that two of the three processes
// have the task on disk.
//
// The bench calls the cluster in two ways:
//
//	Go client      all callers share one client, as the goroutines of a program do
//	single calls   each caller has one HTTP connection to one node, and sends a PUT or a DELETE for each task
//
// Single calls show the rate of a program in any language, without a client library. The caller repeats a call when the
// node answers that the shard has no leader or that the outcome is unknown. Single callers only schedule and cancel:
// further abilities would make them a second client library.
//
// A storm is the load of one namespace, beside which the bench measures another one. It runs in a child process, at
// the lowest priority of the machine (nice 19), so that its processor time is neither the neighbour's nor the
// service's. The child reads its settings, with the key, as one line of JSON from its standard input. It writes one
// line when the storm has begun, ends with the input, and then writes how many tasks were acknowledged. Each
// connection sends one body again and again: the load costs little, and the tasks of a storm stay as many as there are
// ids.
package belfry
