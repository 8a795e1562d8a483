//go:build chaos

package tuning

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestClockFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offset")
	file, err := os.Create(path)
	if err == nil {
		err = file.Truncate(int64Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(clockFileVar, path)
	clock, err := Clock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, offset := range []time.Duration{time.Hour, -10 * time.Second, 0} {
		if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset)), 0); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(clock()); (got - offset).Abs() > time.Second {
			t.Errorf("the clock is off by %v, not %v", got, offset)
		}
	}
}

func TestClockWithoutItsFile(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), os.DevNull} {
		t.Setenv(clockFileVar, path)
		if _, err := Clock(); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
}
