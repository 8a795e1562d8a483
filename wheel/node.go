package wheel

// Handle names a node in the caller's slab. 0 names none.
type Handle = uint32

// Node is the wheel's part of a record: 24 bytes, no pointers. The zero Node is not in a wheel.
type Node struct {
	due  int64
	word uint64 // seq << placeBits | place

	// Next and Prev belong to the wheel while the node is Linked. Otherwise they are free for lists of the caller's
	// own, and the wheel neither reads nor clears them.
	Next, Prev Handle
}

// Nodes is the slab that the caller owns. A returned pointer must stay valid until the slab next allocates. The wheel
// keeps no pointer between calls.
type Nodes interface {
	// Read returns the node for reading.
	Read(h Handle) *Node
	// Write returns the node for a modification. The wheel calls it before every modification, so that the slab can
	// keep the old contents for a snapshot that is being read.
	Write(h Handle) *Node
}

// MaxSeq is the highest sequence number that a node can hold.
const MaxSeq = 1<<(64-placeBits) - 1

// place is the position of a node: nowhere, in a slot (its index plus one), in the heap or in the run.
type place uint64

const (
	placeBits = 10
	placeMask = 1<<placeBits - 1

	nowhere place = 0
	inHeap  place = placeMask - 1
	inRun   place = placeMask
)

// Due returns the node's due in Unix milliseconds. It stays valid after the node has left the wheel.
func (n *Node) Due() int64 { return n.due }

// Seq returns the number that orders nodes of equal due. It stays valid after the node has left the wheel.
func (n *Node) Seq() uint64 { return n.word >> placeBits }

// Linked reports whether the node is in the wheel.
func (n *Node) Linked() bool { return n.place() != nowhere }

func (n *Node) place() place { return place(n.word & placeMask) }

func (n *Node) setPlace(p place) { n.word = n.word&^placeMask | uint64(p) }

func (n *Node) setKey(due int64, seq uint64) {
	n.due = due
	n.word = seq<<placeBits | n.word&placeMask
}

func (n *Node) item(h Handle) item { return item{due: n.due, seq: n.Seq(), handle: h} }

// slot returns the index of the slot that the place stands for; ok is false if it stands for none.
func (p place) slot() (int, bool) { return int(p) - 1, p != nowhere && p <= slotCount }

func placeOfSlot(i int) place { return place(i + 1) }

// item is a node's key with its handle, for frequent comparisons.
type item struct {
	due    int64
	seq    uint64
	handle Handle
}

func (a item) before(b item) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}
