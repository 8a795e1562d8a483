package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestKeyHintWorks pastes the hint's command of curl into a shell, for data folders with all kinds of names.
func TestKeyHintWorks(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	const key = "bfy_abcdefghij_secret_check"
	calls := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls <- r.URL.Path + " " + r.Header.Get("Authorization")
	}))
	t.Cleanup(server.Close)
	for _, folder := range []string{"belfry-data", "my data", "it's $HOME", `"a;b"`, "größe&co"} {
		path := filepath.Join(t.TempDir(), folder, "admin.key")
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
		lines := strings.Split(strings.TrimSpace(keyHint(path, server.URL)), "\n")
		line := strings.TrimSpace(lines[len(lines)-1])
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
		assert.NoError(t, err, "%s: %s", line, out)
		if got := <-calls; got != "/v1/tasks Bearer "+key {
			t.Errorf("%s asked for %q: %s", line, got, out)
		}
		if strings.Contains(line, "$(") {
			t.Errorf("%s has the key in an argument", line)
		}
	}
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestLostKeyIsEnded checks that a key whose text cannot be written is revoked again, and that no key is made for a
// file that takes none.
func TestLostKeyIsEnded(t *testing.T) {
	a := serveKeys(t, 201, newShopKey)
	run := func(out io.Writer, line string) error {
		a.uri = ""
		root := newRoot()
		root.SetOut(out)
		root.SetErr(io.Discard)
		root.SetArgs(append(strings.Fields(line), "--addr", a.url))
		return root.ExecuteContext(t.Context())
	}
	const create, rotate = "key create shop --role schedule", "key rotate abcdefghij"
	err := run(fullDisk{}, create)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "abcdefghij") ||
		a.uri != "DELETE /v1/keys/abcdefghij" {
		t.Errorf("%v after %s", err, a.uri)
	}
	if err := run(fullDisk{}, rotate); err == nil || !strings.Contains(err.Error(), "belfry key rotate abcdefghij") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "shop.key")
	assert.NoError(t, os.WriteFile(path, []byte("kept\n"), 0o600))
	closed, err := os.Open(path) // for reading alone
	assert.NoError(t, err)
	defer func() { _ = closed.Close() }()
	for _, line := range []string{create, rotate} {
		if err := run(closed, line); err == nil || a.uri != "" {
			t.Errorf("%s: %v after %q", line, err, a.uri)
		}
	}
	longer, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	assert.NoError(t, err)
	defer func() { _ = longer.Close() }()
	err = run(longer, create)
	text, _ := os.ReadFile(path)
	if err != nil || string(text) != "kept\nbfy_abcdefghij_secret_check\n" {
		t.Errorf("%v, the file is %q", err, text)
	}
}
