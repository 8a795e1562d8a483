package demo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/demo"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/gated"
)

// TestRealDemo runs a small demo with real nodes. It ignores the lateness, which means little on a machine that runs
// other tests. The demo's own limits hold: 30 s for the failover, and 20 s for the last task.
func TestRealDemo(t *testing.T) {
	gated.Need(t, gated.Real)
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "data")
	verdict, err := demo.Run(t.Context(), demo.Config{
		Tasks: 500, Spread: 4 * time.Second, Binary: localtest.Build(t), DataDir: dir, Out: &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !verdict.OK() || verdict.Scheduled != 500 || verdict.Shards == 0 || verdict.Failover <= 0 {
		t.Errorf("%+v\n%s", verdict, out.String())
	}
	for _, want := range []string{"kill -9 node-", "is back and ready", "nothing lost, nothing early"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a folder that was asked for is not kept: %v", err)
	}
}
