package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// backupNode answers GET /v1/backup.
func backupNode(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/backup", answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func wholeBackup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", backupSum+", "+backupShards)
	_, _ = io.WriteString(w, "rate "+r.URL.Query().Get("rate"))
	w.Header().Set(backupSum, "abc")
	w.Header().Set(backupShards, "1;index=7;at=x")
}

func backupClient(t *testing.T, addrs ...string) *Client {
	t.Helper()
	c, err := New(Config{Addrs: addrs})
	assert.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A node that refuses or is away is passed over.
func TestBackupAsksTheNextNode(t *testing.T) {
	busy := backupNode(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"type":"urn:belfry:problem:overloaded","title":"Too many","status":429}`)
	})
	c := backupClient(t, "http://127.0.0.1:1", busy, backupNode(t, wholeBackup))
	var out strings.Builder
	made, err := c.Backup(t.Context(), &out, BackupOptions{Rate: 5 << 20})
	if err != nil || out.String() != "rate 5242880" || *made != (Backup{Bytes: 12, SHA256: "abc", Shards: "1;index=7;at=x"}) {
		t.Errorf("%+v, %v, %q", made, err, out.String())
	}
	_, err = backupClient(t, busy).Backup(t.Context(), io.Discard, BackupOptions{})
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Status != 429 {
		t.Errorf("%v", err)
	}
}

// A backup that breaks off is an error, and no other node is asked for the rest.
func TestBrokenBackup(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{
		"broken connection": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"without trailers": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "half") },
	} {
		var out strings.Builder
		c := backupClient(t, backupNode(t, broken), backupNode(t, wholeBackup))
		if _, err := c.Backup(t.Context(), &out, BackupOptions{}); err == nil || out.String() != "half" {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestBackupThatCannotBeWritten(t *testing.T) {
	full := errors.New("the disk is full")
	_, err := backupClient(t, backupNode(t, wholeBackup)).Backup(t.Context(), failingWriter{full}, BackupOptions{})
	assert.ErrorIs(t, err, full)
}
