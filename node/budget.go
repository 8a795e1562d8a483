package node

import "math"

// The parts of the file descriptors. An attempt may need two for a moment, while it looks its receiver up.
const (
	ownPart      = 8   // of all, for the node's own files and its connections to other nodes; at least
	leastOwn     = 256 // of them, or a quarter if that is less
	attemptParts = 3   // eighths of the rest
	callParts    = 2   // eighths of the rest, for connections of callers
	idlePart     = 16  // of the rest, for idle connections to receivers
	mostAttempts = 1 << 16
	mostIdle     = 1024
	mostCalls    = 1 << 15
)

// The memory of an attempt with its connection, and the part of the memory limit that attempts may take.
const (
	attemptBytes = 32 << 10
	attemptPart  = 4
)

// budget is the number of connections of each kind that a node may have, so that it never lacks a file descriptor for
// its own files.
type budget struct {
	attempts int // under way
	calls    int // connections of callers
	idle     int // connections to receivers that are kept for the next attempt
}

// budgetOf divides the file descriptors and the memory in bytes; 0 stands for no limit of memory.
func budgetOf(descriptors uint64, memory int64) budget {
	all := int(min(descriptors, math.MaxInt32))
	rest := all - max(all/ownPart, min(leastOwn, all/4))
	b := budget{
		attempts: min(rest/8*attemptParts, mostAttempts),
		calls:    min(rest/8*callParts, mostCalls),
		idle:     min(rest/idlePart, mostIdle),
	}
	if memory > 0 {
		b.attempts = min(b.attempts, int(memory/attemptPart/attemptBytes))
	}
	return b
}
