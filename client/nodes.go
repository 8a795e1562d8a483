package client

import "sync/atomic"

// nodes are the cluster's addresses. The one that answered last is asked first; one that fails is left for the next.
type nodes struct {
	bases   []string
	current atomic.Uint32
}

// first is the node that a call begins with.
func (n *nodes) first() uint32 { return n.current.Load() }

func (n *nodes) base(i uint32) string { return n.bases[int(i)%len(n.bases)] }

// after says that node i failed and which one to ask now. Calls that fail together move the choice on only once.
func (n *nodes) after(i uint32) uint32 {
	n.current.CompareAndSwap(i, i+1)
	return i + 1
}
