package wheel

// heap is a 4-ary min-heap by (due, seq) of the nodes that no slot can take. Its items hold the keys, so that sifting
// compares without reads of nodes. Each node's Next holds its index, so that it can be removed.
type heap struct {
	items []item
}

const (
	heapArity = 4
	heapKeep  = 1 << 14 // items; a larger buffer is given back when it falls empty
)

func (p *heap) min() (item, bool) {
	if len(p.items) == 0 {
		return item{}, false
	}
	return p.items[0], true
}

func (p *heap) push(nodes Nodes, it item) {
	nodes.Write(it.handle).setPlace(inHeap)
	p.items = append(p.items, it)
	p.up(nodes, len(p.items)-1, it)
}

// remove removes the item at index i. The caller sets the node's place.
func (p *heap) remove(nodes Nodes, i int) {
	end := len(p.items) - 1
	last := p.items[end]
	p.items = p.items[:end]
	switch {
	case end == 0 && cap(p.items) > heapKeep:
		p.items = nil
	case i == end:
	case i > 0 && last.before(p.items[(i-1)/heapArity]):
		p.up(nodes, i, last)
	default:
		p.down(nodes, i, last)
	}
}

// up puts it at index i or at an ancestor's.
func (p *heap) up(nodes Nodes, i int, it item) {
	for i > 0 {
		parent := (i - 1) / heapArity
		if !it.before(p.items[parent]) {
			break
		}
		p.set(nodes, i, p.items[parent])
		i = parent
	}
	p.set(nodes, i, it)
}

// down puts it at index i or at a descendant's.
func (p *heap) down(nodes Nodes, i int, it item) {
	for {
		child := p.leastChild(i)
		if child < 0 || !p.items[child].before(it) {
			break
		}
		p.set(nodes, i, p.items[child])
		i = child
	}
	p.set(nodes, i, it)
}

func (p *heap) leastChild(i int) int {
	first := i*heapArity + 1
	if first >= len(p.items) {
		return -1
	}
	least := first
	for c := first + 1; c < min(first+heapArity, len(p.items)); c++ {
		if p.items[c].before(p.items[least]) {
			least = c
		}
	}
	return least
}

func (p *heap) set(nodes Nodes, i int, it item) {
	p.items[i] = it
	nodes.Write(it.handle).Next = Handle(i)
}
