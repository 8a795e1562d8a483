package placement

// Shards returns the default number of shards of a new cluster. It is four for each founding node, or one for every two
// of a node's processors if that is less. A cluster of fewer than three nodes gets as many as one of three.
//
// An entry of a shard's log costs hundreds of microseconds of processor time over its three nodes, however few tasks
// are in it, and all shards share the load of simultaneous calls. So with fewer shards each entry has more tasks. With
// more shards more processors apply at once, and more nodes share the leaderships of a lost node. Three nodes on two
// processors, 64 callers of the Go client: 14k schedules a second with twelve shards, 15k with six, 23k with three, on
// a disk; 24k, 30k and 39k in memory.
func Shards(nodes int, processors float64) int {
	return max(nodes, fewNodes) * int(min(max(processors/processorsAShard, 1), mostLeads))
}

const (
	fewNodes         = 3
	mostLeads        = 4
	processorsAShard = 2
)
