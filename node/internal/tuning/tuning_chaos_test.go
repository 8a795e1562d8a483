//go:build chaos

package tuning

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster"
)

func TestDurations(t *testing.T) {
	t.Setenv(stuckVar, "3s")
	t.Setenv(calmVar, "2s")
	t.Setenv(stepVar, "1s")
	var cfg cluster.Config
	if err := Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Timing.Stuck != 3*time.Second || cfg.Calm != 2*time.Second || cfg.StepPause != time.Second {
		t.Errorf("stuck %v, calm %v, pause %v", cfg.Timing.Stuck, cfg.Calm, cfg.StepPause)
	}
	t.Setenv(stepVar, "soon")
	if err := Apply(&cfg); err == nil || !strings.Contains(err.Error(), stepVar) {
		t.Errorf("a duration %q was taken: %v", "soon", err)
	}
}

func TestGossipIsMutedByItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mute")
	if err := os.WriteFile(path, make([]byte, int64Bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(muteFileVar, path)
	var cfg cluster.Config
	if err := Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, on := range []uint64{0, 1, 0} {
		if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, on), 0); err != nil {
			t.Fatal(err)
		}
		if got := cfg.GossipMuted(); got != (on != 0) {
			t.Errorf("the file says %d, and gossip is muted: %v", on, got)
		}
	}
	t.Setenv(muteFileVar, filepath.Join(t.TempDir(), "none"))
	if err := Apply(&cfg); err == nil {
		t.Error("a file that there is not was taken")
	}
}
