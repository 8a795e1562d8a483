package vitals

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/deploy/local"
)

func TestField(t *testing.T) {
	status := []byte("Name:\tbelfry\nVmRSS:\t   2048 kB\nThreads:\t9\n")
	if got, err := field(status, "VmRSS:"); got != 2048 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := field(status, "VmSwap:"); err == nil {
		t.Error("something out of nothing")
	}
}

func TestProcessorTime(t *testing.T) {
	got, err := processorTime([]byte("7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 100 1 1"))
	if got != 4 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "7 (x", "7 (x) S 1", "7 (x) S 1 7 7 0 -1 4 1 0 0 0 a b 0 0"} {
		if _, err := processorTime([]byte(text)); err == nil {
			t.Errorf("%q has times", text)
		}
	}
}

func TestOfThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	u, err := Of(os.Getpid())
	if err != nil || u.Memory < 1<<20 || u.Descriptors < 3 || u.Threads < 1 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := Of(1 << 30); err == nil {
		t.Error("a process that there is not")
	}
}

func TestTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# HELP go_goroutines x\ngo_goroutines 42\nother 7\ngo_memstats_heap_inuse_bytes 1.5e+06\n"))
	}))
	defer server.Close()
	node := local.Node{HTTPAddr: strings.TrimPrefix(server.URL, "http://")}
	got, err := told(t.Context(), server.Client(), node)
	if err != nil || got["go_goroutines"] != 42 || got["go_memstats_heap_inuse_bytes"] != 1.5e6 || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSize(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "belfry.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := size(dir); got != 2000 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := size(filepath.Join(dir, "none")); got != 0 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}
