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
package belfry
