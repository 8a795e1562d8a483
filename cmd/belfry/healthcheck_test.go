package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestHealthcheck checks the command against nodes with TLS and without it, and the addresses that it asks.
func TestHealthcheck(t *testing.T) {
	answer := http.StatusOK
	node := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/healthz" {
			w.WriteHeader(answer)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	plain, secure := httptest.NewServer(node), httptest.NewTLSServer(node)
	defer plain.Close()
	defer secure.Close()
	for _, answer = range []int{http.StatusOK, http.StatusServiceUnavailable} {
		for _, server := range []*httptest.Server{plain, secure} {
			err := checkHealth(t.Context(), server.Listener.Addr().String())
			assert.Equal(t, err == nil, answer == http.StatusOK, "%s answers %d: %v", server.URL, answer, err)
		}
	}
	gone := httptest.NewServer(node)
	gone.Close()
	assert.Error(t, checkHealth(t.Context(), gone.Listener.Addr().String()), "a node that is gone is alive")
	for addr, want := range map[string]string{
		":8400": "localhost:8400", "0.0.0.0:1": "localhost:1", "[::]:1": "localhost:1", "10.0.0.1:2": "10.0.0.1:2",
	} {
		if got, err := nearAddr(addr); err != nil || got != want {
			t.Errorf("%s: %s, %v", addr, got, err)
		}
	}
	_, err := nearAddr("8400")
	assert.Error(t, err, "an address without a port is taken")
}
