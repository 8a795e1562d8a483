package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/verify"
)

func TestVerify(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	addr, stop := serving(t, "--data", dir, "--shards", "1")
	c := dial(t, addr)
	if _, err := c.Schedule(t.Context(), client.Task{ID: "a", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if out, code := belfry(t, "verify", dir); code != exitFailed || !strings.Contains(out, "use") {
		t.Errorf("of a running node: %d\n%s", code, out)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	out, code := belfry(t, "verify", dir)
	if code != 0 || !strings.Contains(out, "1 scheduled") || strings.Count(out, "sound") != 2 {
		t.Errorf("%d\n%s", code, out)
	}
	out, code = belfry(t, "verify", "--json", dir)
	var report verify.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || len(report.Groups) != 2 {
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
