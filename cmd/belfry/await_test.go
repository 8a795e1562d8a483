package main

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// awaitNil waits until condition returns nil. It gives up shortly before go test ends the tests, and then fails the test
// with the condition's last error.
func awaitNil(t *testing.T, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond) // leaves the processor to the nodes
	defer ticker.Stop()
	deadline, bounded := t.Deadline()
	for ; ; <-ticker.C {
		err := condition()
		if err == nil {
			return
		}
		if bounded && time.Until(deadline) < 10*time.Second {
			t.Fatal(err)
		}
	}
}

// await waits until done reports true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	awaitNil(t, func() error {
		if !done() {
			return errors.New("in vain: " + what)
		}
		return nil
	})
}

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	assert.NoError(t, err)
	return exchange(t, req)
}

func exchange(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	assert.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	return resp.StatusCode, string(body)
}
