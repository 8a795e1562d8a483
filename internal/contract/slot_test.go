package contract

import "testing"

func BenchmarkSlot(b *testing.B) {
	for b.Loop() {
		SlotOf("", "order-1042-close-0000001")
	}
}
