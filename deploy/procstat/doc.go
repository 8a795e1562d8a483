// Package procstat reads the resource usage of processes, and the metrics of a node.
//
//	Of         one process: memory, descriptors, threads, processor time
//	OfTrees    processes with their descendants, for servers that fork
//	Fetch      a node's metrics, by name
//
// Of and OfTrees read /proc (prometheus/procfs). They return an error on other systems than Linux. Fetch reads the text
// format of Prometheus (prometheus/common/expfmt). The package does not judge the numbers.
package procstat
