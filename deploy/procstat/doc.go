// Package procstat reads what processes take from their machine, and what a node says at /metrics:
//
//	Of         one process: memory, descriptors, threads, processor time
//	OfTrees    processes with their descendants, for servers that fork
//	Fetch      a node's metrics, by name
//
// Of and OfTrees read /proc (prometheus/procfs), and return an error elsewhere than on Linux. Fetch reads the text
// format of Prometheus (prometheus/common/expfmt). The judgement of the numbers is the caller's.
package procstat
