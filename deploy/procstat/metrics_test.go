package procstat

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func serve(t *testing.T, text string) (addr string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		if got := r.Header.Get("Authorization"); got != "" && got != "Bearer bfy_x" {
			t.Errorf("the call carries %q", got)
		}
		_, _ = w.Write([]byte(text)) // an error means that the client has gone
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// keyFile returns a file with a key.
func keyFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "admin.key")
	assert.NoError(t, os.WriteFile(path, []byte("bfy_x\n"), 0o600))
	return path
}

func TestFetch(t *testing.T) {
	m, err := Fetch(t.Context(), http.DefaultClient, serve(t, `# HELP go_goroutines x
# TYPE go_goroutines gauge
go_goroutines 42
# TYPE a_total counter
a_total{shard="1"} 2
a_total{shard="2"} 3.5
a_total_more 7
go_memstats_heap_inuse_bytes 1.5e+06
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 3
took_seconds_bucket{le="+Inf"} 4
took_seconds_sum 5
took_seconds_count 4
`), keyFile(t))
	assert.NoError(t, err)
	for name, want := range map[string][]float64{
		"go_goroutines": {42}, "a_total": {2, 3.5}, "a_total_more": {7}, "go_memstats_heap_inuse_bytes": {1.5e6},
		"took_seconds_count": {4}, "took_seconds": nil, "none": nil, "none_count": nil,
	} {
		assert.EqualSlices(t, m.Values(name), want, "%s", name)
	}
	assert.EqualSlices(t, m.Values("a_total", Label{"shard", "2"}), []float64{3.5}, "of shard 2")
	if got := m.Values("a_total", Label{"shard", "3"}); got != nil {
		t.Errorf("of shard 3: %v", got)
	}
}

func TestFetchFails(t *testing.T) {
	_, err := Fetch(t.Context(), http.DefaultClient, serve(t, "bad{} x\n"), "")
	assert.Error(t, err, "a page that cannot be read: no error")
	addr := serve(t, "")
	if _, err := Fetch(t.Context(), http.DefaultClient, addr+"/elsewhere", ""); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("no such page: %v", err)
	}
}
