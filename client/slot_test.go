package client

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/task"
)

// TestSlots checks the hash against the service's for every length, and the slot for every kind of id.
func TestSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if got, want := xxhash64(b), xxhash.Sum64(b); got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
		for _, namespace := range []string{"", "default", "orders", strings.Repeat("n", 63)} {
			if got, want := slotOf(namespace, string(b)), int(task.Slot(namespace, string(b))); got != want {
				t.Fatalf("%s %q: slot %d, want %d", namespace, b, got, want)
			}
		}
	}
}

// TestOccurrencesShareASlot checks that the occurrences of a schedule are where the schedule is, as the service has it.
func TestOccurrencesShareASlot(t *testing.T) {
	for _, id := range []string{"report", "report@", "report@1", "report@18446744073709551615"} {
		got := slotOf("orders", id)
		if got != slotOf("orders", "report") || got != int(task.Slot("orders", id)) {
			t.Errorf("%s: slot %d, want %d, and the service's is %d", id, got, slotOf("orders", "report"),
				task.Slot("orders", id))
		}
	}
	if slotOf("", "a@1") == slotOf("", "b@1") {
		t.Error("the part before the @ does not count")
	}
}

func BenchmarkSlot(b *testing.B) {
	for b.Loop() {
		slotOf("", "order-1042-close-0000001")
	}
}
