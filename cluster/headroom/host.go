package headroom

import "runtime/metrics"

// Host has the figures of a machine, and of the process on it.
type Host interface {
	// Space returns the room on the disk of the data folder.
	Space() (Space, error)
	// Heap describes the heap of the process.
	Heap() Heap
	// Machine returns how much memory the machine has, and how much of it is available without swapping.
	Machine() (Machine, error)
}

// System is the host of this process. Dir is the data folder, which need not exist yet.
type System struct{ Dir string }

// Heap describes the heap of this process.
func (System) Heap() Heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	return Heap{Live: int64(samples[0].Value.Uint64()), Cycles: samples[1].Value.Uint64()}
}

// Space is the room on a file system, in bytes.
type Space struct {
	Free  uint64 // for a process without privileges
	Total uint64
}

// Heap describes the heap at the last garbage collection.
type Heap struct {
	Live   int64  // bytes in use after the last collection
	Cycles uint64 // number of collections
}

// Machine is a machine's memory, in bytes.
type Machine struct{ Total, Available int64 }
