package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestBackupIsStreamedWithTrailers(t *testing.T) {
	h := newHarness(t)
	server := httptest.NewServer(h.server)
	defer server.Close()
	resp, err := http.Get(server.URL + "/v1/backup")
	assert.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || string(body) != "backup" {
		t.Errorf("%d %q %v", resp.StatusCode, body, err)
	}
	if sum := resp.Trailer.Get(backupSum); sum != "abc" {
		t.Errorf("sum %q in %v", sum, resp.Trailer)
	}
	want := "1;index=7;at=1970-01-01T00:00:01.000Z, 2;index=8;at=1970-01-01T00:00:02.500Z"
	assert.Equal(t, resp.Trailer.Get(backupInstants), want, "shards")
}

// A backup that fails before its first byte is a problem, and later a broken connection without trailers.
func TestBackupThatFails(t *testing.T) {
	h := newHarness(t)
	server := httptest.NewServer(h.server)
	defer server.Close()
	h.fake.readErr = fmt.Errorf("%w: shard 3 has no leader", task.ErrNotProposed)
	p := h.call("GET", "/v1/backup", "").mustProblem(t, 503, "")
	assert.Contains(t, fmt.Sprint(p["detail"]), "shard 3", "%v", p)
	h.fake.backup = func(_ context.Context, w io.Writer, _ int64) (BackupSummary, error) {
		_, err := io.WriteString(w, strings.Repeat("x", 100_000))
		return BackupSummary{}, errors.Join(err, errors.New("the leader has died"))
	}
	resp, err := http.Get(server.URL + "/v1/backup")
	assert.NoError(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil || resp.Trailer.Get(backupSum) != "" {
		t.Errorf("%d bytes, %v", len(body), resp.Trailer)
	}
}

func TestBackupsAreFew(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.MaxBackups = 1 })
	entered, leave := make(chan struct{}), make(chan struct{})
	h.fake.backup = func(context.Context, io.Writer, int64) (BackupSummary, error) {
		close(entered)
		<-leave
		return BackupSummary{}, task.ErrNotProposed
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, r := recorded("GET", "/v1/backup", "")
		h.server.ServeHTTP(w, r)
	}()
	<-entered
	p := h.call("GET", "/v1/backup", "").mustProblem(t, 429, "")
	if !strings.Contains(fmt.Sprint(p["detail"]), "too many backups") || p["limit"] != "1" {
		t.Errorf("%v", p)
	}
	close(leave)
	<-done
}

// The caller's leaving ends the backup.
func TestBackupEndsWithItsCaller(t *testing.T) {
	h := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	h.fake.backup = func(ctx context.Context, w io.Writer, _ int64) (BackupSummary, error) {
		cancel()
		<-ctx.Done()
		_, err := io.WriteString(w, "x")
		ended <- err
		return BackupSummary{}, err
	}
	w, r := recorded("GET", "/v1/backup", "")
	func() {
		defer func() { _ = recover() }() // http.ErrAbortHandler
		h.server.ServeHTTP(w, r.WithContext(ctx))
	}()
	assert.ErrorIs(t, <-ended, context.Canceled, "a write after the caller left")
}

func TestBackupRate(t *testing.T) {
	h := newHarness(t)
	var given int64
	h.fake.backup = func(_ context.Context, w io.Writer, rate int64) (BackupSummary, error) {
		given = rate
		_, err := w.Write(make([]byte, 300<<10))
		return BackupSummary{SHA256: "abc"}, err
	}
	for _, rate := range []string{"fast", "-1", "0", "1023", "50MiB", "1099511627777", "99999999999999999999"} {
		h.call("GET", "/v1/backup?rate="+rate, "").mustProblem(t, 400, "rate")
	}
	for query, want := range map[string]int64{"": 0, "?rate=1024": 1024, "?rate=1099511627776": 1 << 40} {
		got := h.call("GET", "/v1/backup"+query, "")
		if got.StatusCode != 200 || len(got.text) != 300<<10 || given != want {
			t.Errorf("%q: status %d, %d bytes, rate %d", query, got.StatusCode, len(got.text), given)
		}
	}
}
