package placement

// Shards is how many shards a new cluster gets if nobody says: for each node that forms it four, or one for every two
// of a node's processors if that is less; with fewer than three nodes as many as with three.
//
// An entry of a shard's log costs hundreds of microseconds of processor time over its three nodes, however few tasks
// are in it, and what callers ask at the same time is shared by all shards: the fewer there are, the more tasks an
// entry has. More let more processors apply at once, and share what a lost node led. Three nodes on two processors,
// 64 callers of the Go client: 14k schedules a second with twelve shards, 15k with six, 23k with three, on a disk; 24k,
// 30k and 39k in memory.
func Shards(nodes int, processors float64) int {
	return max(nodes, fewNodes) * int(min(max(processors/processorsAShard, 1), mostLeads))
}

const (
	fewNodes         = 3
	mostLeads        = 4
	processorsAShard = 2
)
