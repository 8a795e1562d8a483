package install

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestArrivingSnapshotIsMetered reads a snapshot at 4 bytes a second, with a pause.
func TestArrivingSnapshotIsMetered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meter
		assert.Equal(t, m.now(time.Now()), Arriving{}, "before")
		r := m.watch(strings.NewReader(strings.Repeat("x", 40)), 40)
		second := func(n int, want Arriving) {
			t.Helper()
			_, err := io.ReadFull(r, make([]byte, n))
			assert.NoError(t, err)
			time.Sleep(time.Second)
			assert.Equal(t, m.now(time.Now()), want)
		}
		second(4, Arriving{40, 4, 4})
		second(4, Arriving{40, 8, 4})
		second(8, Arriving{40, 16, 16. / 3})
		time.Sleep(time.Minute)
		second(20, Arriving{40, 36, 4})
		_, err := io.ReadAll(r)
		assert.NoError(t, err)
		assert.Equal(t, m.now(time.Now()), Arriving{}, "after")
	})
}
