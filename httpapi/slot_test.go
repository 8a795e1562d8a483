package httpapi

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// TestClientsComputeTheSameSlot checks the slots of clients, which have a hash of their own, against the service's, for
// ids of every length.
func TestClientsComputeTheSameSlot(t *testing.T) {
	if contract.SlotCount != task.Slots {
		t.Errorf("clients have %d slots, the service has %d", contract.SlotCount, task.Slots)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		for _, namespace := range []string{"", "default", "orders", strings.Repeat("n", 63)} {
			if got, want := contract.SlotOf(namespace, string(b)), int(task.Slot(namespace, string(b))); got != want {
				t.Fatalf("%s %q: slot %d, want %d", namespace, b, got, want)
			}
		}
	}
}

// TestOccurrencesShareASlot checks that the occurrences of a schedule are where the schedule is, for clients, too.
func TestOccurrencesShareASlot(t *testing.T) {
	want := task.Slot("orders", "report")
	for _, id := range []string{"report", "report@", "report@1", "report@18446744073709551615"} {
		if got := task.Slot("orders", id); got != want || contract.SlotOf("orders", id) != int(want) {
			t.Errorf("%s: slot %d, for clients %d, want %d", id, got, contract.SlotOf("orders", id), want)
		}
	}
	if contract.SlotOf("", "a@1") == contract.SlotOf("", "b@1") {
		t.Error("the part before the @ does not count")
	}
}
