package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster/recovery"
)

// verifyFolder judges the folder of a stopped node with six shards and one task, and then damages it.
func verifyFolder(t *testing.T, dir string) {
	t.Helper()
	out, code := belfry(t, "verify", dir)
	if code != 0 || !strings.Contains(out, "1 scheduled") || strings.Count(out, "sound") != 7 {
		t.Errorf("%d\n%s", code, out)
	}
	out, code = belfry(t, "verify", "--json", dir)
	var report recovery.FolderReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || len(report.Groups) != 7 {
		t.Errorf("%d, %v\n%s", code, err, out)
	}
	if err := os.RemoveAll(filepath.Join(dir, "groups", "0001", "log", "wal")); err != nil {
		t.Fatal(err)
	}
	out, code = belfry(t, "verify", dir)
	if code != exitFailed || !strings.Contains(out, "NOT SOUND") || !strings.Contains(out, "lost") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := belfry(t, "verify", t.TempDir()); code != exitFailed || !strings.Contains(out, "data folder") {
		t.Errorf("%d\n%s", code, out)
	}
}
