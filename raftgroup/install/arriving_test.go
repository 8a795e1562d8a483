package install

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestArrivingSnapshotIsMetered reads a snapshot at 4 bytes a second, with a pause.
func TestArrivingSnapshotIsMetered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		if now := m.now(time.Now()); now != (Arriving{}) {
			t.Errorf("before: %v", now)
		}
		r := m.watch(strings.NewReader(strings.Repeat("x", 40)), 40)
		second := func(n int, want Arriving) {
			t.Helper()
			if _, err := io.ReadFull(r, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if now := m.now(time.Now()); now != want {
				t.Errorf("%v, want %v", now, want)
			}
		}
		second(4, Arriving{40, 4, 4})
		second(4, Arriving{40, 8, 4})
		second(8, Arriving{40, 16, 16. / 3})
		time.Sleep(time.Minute)
		second(20, Arriving{40, 36, 4})
		if _, err := io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if now := m.now(time.Now()); now != (Arriving{}) {
			t.Errorf("after: %v", now)
		}
	})
}
