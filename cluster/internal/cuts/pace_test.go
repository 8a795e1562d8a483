package cuts

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		if n, err := atRate(t.Context(), &out, 100<<10).Write(make([]byte, 300<<10)); n != 300<<10 || err != nil || out.Len() != n {
			t.Errorf("%d, %v, %d", n, err, out.Len())
		}
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("300 KiB at 100 KiB a second took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := atRate(ctx, &out, 1<<10).Write(make([]byte, 1<<20)); n > 2<<10 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes within a second, %v", n, err)
		}
	})
}
