package local

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetric(t *testing.T) {
	body := "# HELP a_total x\na_total{shard=\"1\"} 2\na_total{shard=\"2\"} 3.5\na_total_more 7\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body)) // an error means that the client has gone
	}))
	defer server.Close()
	n := Node{Name: "node-1", HTTPAddr: strings.TrimPrefix(server.URL, "http://")}
	if v, err := n.Metric(t.Context(), "a_total"); err != nil || v != 5.5 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := n.Metric(t.Context(), "none"); err != nil || v != 0 {
		t.Errorf("%v, %v", v, err)
	}
	n.HTTPAddr += "/elsewhere"
	_, err := n.Metric(t.Context(), "a_total")
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "node-1") {
		t.Errorf("%v", err)
	}
}
