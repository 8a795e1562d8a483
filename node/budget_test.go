package node

import "testing"

// The parts of a budget leave descriptors for the node's own files, also while each attempt needs two.
func TestBudget(t *testing.T) {
	for _, descriptors := range []uint64{256, 1024, 20_000, 65_536, 1 << 20, 1 << 40} {
		b := budgetOf(descriptors, 0)
		if b.attempts < 32 || b.calls < 32 || b.idle < 8 {
			t.Errorf("%d descriptors: %+v is too little", descriptors, b)
		}
		if left := int(min(descriptors, 1<<31)) - b.attempts - b.calls - b.idle; left < int(min(descriptors/4, 256)) {
			t.Errorf("%d descriptors: %+v leaves %d", descriptors, b, left)
		}
	}
	if b := budgetOf(1<<20, 64<<20); b.attempts != 512 {
		t.Errorf("with 64 MiB of memory: %+v", b)
	}
}
