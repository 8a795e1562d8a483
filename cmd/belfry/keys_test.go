package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	shopKey = `"id":"abcdefghij","name":"shop","grants":[{"role":"schedule","namespace":"orders","queues":["mails*"]},
		{"role":"read","namespace":"*"}],"created_at":"2026-11-21T10:00:00Z","expires_at":null,"last_used_at":null`
	newShopKey = `{` + shopKey + `,"key":"bfy_abcdefghij_secret_check"}`
	ordersJSON = `{"name":"orders","state":"active","max_pending":1000,"max_bytes":1048576,"weight":2,
		"max_queues":9,"calls_per_second":100,
		"used":{"pending":12,"dead":3,"bytes":2048,"queues":4,"consumers":5,"schedules_per_second":0,"calls_per_second":12.5}}`
)

// sentRequest holds the parts of a request that a connection decides.
type sentRequest struct{ url, uri, key, body string }

func serveKeys(t *testing.T, status int, answer string) *sentRequest {
	t.Helper()
	a := &sentRequest{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.uri, a.key, a.body = r.Method+" "+r.RequestURI, r.Header.Get("Authorization"), string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// ran runs a command line and returns its two outputs apart.
func ran(t *testing.T, args ...string) (out, notes string, err error) {
	t.Helper()
	return ranWith(t.Context(), strings.NewReader(""), args...)
}

// ranWith runs a command line with an input, and returns its two outputs apart.
func ranWith(ctx context.Context, in io.Reader, args ...string) (out, notes string, err error) {
	root := newRoot()
	var stdout, stderr strings.Builder
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetIn(in)
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// words returns the words of a command line. An underscore stands for a space in a word.
func words(line string) []string {
	list := strings.Fields(line)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "_", " ")
	}
	return list
}

// The notes tell of a key that ends later than the key that has made it.
func TestOutlivingKeyIsNoted(t *testing.T) {
	for _, outlives := range []bool{false, true} {
		a := serveKeys(t, 201, strings.TrimSuffix(newShopKey, "}")+fmt.Sprintf(`,"outlives_maker":%v}`, outlives))
		_, notes, err := ran(t, "key", "create", "shop", "--role", "schedule", "--addr", a.url)
		if err != nil || strings.Contains(notes, "\nIt stays valid for longer than the key of this call. It is not shown again.") != outlives {
			t.Errorf("%v: %v, noted %q", outlives, err, notes)
		}
	}
}

// The text of a new key is all that the standard output gets, with --json too.
func TestKeyIsPrintedAlone(t *testing.T) {
	for _, line := range []string{"key create shop --role schedule", "key rotate abcdefghij"} {
		a := serveKeys(t, 201, newShopKey)
		out, notes, err := ran(t, append(strings.Fields(line), "--addr", a.url)...)
		if err != nil || out != "bfy_abcdefghij_secret_check\n" {
			t.Errorf("%s: %v, printed %q", line, err, out)
		}
		if strings.Contains(notes, "secret") || !strings.Contains(notes, "belfry key revoke abcdefghij") ||
			!strings.Contains(notes, "schedule in orders (queues mails*); read in all namespaces; never expires") {
			t.Errorf("%s: noted %q", line, notes)
		}
		out, _, err = ran(t, append(strings.Fields(line), "--json", "--addr", a.url)...)
		if err != nil || !strings.Contains(out, `"key":"bfy_abcdefghij_secret_check"`) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %v, printed %q", line, err, out)
		}
	}
}

// Flags make the grants of a key: each role in each namespace.
func TestKeyGrants(t *testing.T) {
	for line, want := range map[string]string{
		"--role schedule": `{"grants":[{"role":"schedule","namespace":"default"}],"name":"n"}`,
		"--role consume,read --namespace a,b --queue q* --id x-*,y": `{"grants":[` +
			`{"role":"consume","namespace":"a","queues":["q*"],"ids":["x-*","y"]},` +
			`{"role":"read","namespace":"a","queues":["q*"],"ids":["x-*","y"]},` +
			`{"role":"consume","namespace":"b","queues":["q*"],"ids":["x-*","y"]},` +
			`{"role":"read","namespace":"b","queues":["q*"],"ids":["x-*","y"]}],"name":"n"}`,
		"--role admin --namespace * --expires 2030-01-01T00:00:00Z": `{"expires_at":"2030-01-01T00:00:00Z",` +
			`"grants":[{"role":"admin","namespace":"*"}],"name":"n"}`,
		"--role read --max-payload 1KiB --calls-per-second 5": `{"grants":[{"role":"read","namespace":"default"}],"name":"n",` +
			`"quotas":{"max_payload":1024,"calls_per_second":5}}`,
	} {
		a := serveKeys(t, 201, newShopKey)
		_, _, err := ran(t, append(strings.Fields("key create n --addr "+a.url), strings.Fields(line)...)...)
		if err != nil || a.body != want || a.uri != "POST /v1/keys" {
			t.Errorf("%s: %v, sent %s %s", line, err, a.uri, a.body)
		}
	}
	f := grantFlags{roles: []string{"read"}, expires: "90d"}
	if r, err := f.request("n", ""); err != nil || time.Until(r.ExpiresAt).Round(time.Minute) != 90*24*time.Hour {
		t.Errorf("%v %v", r.ExpiresAt, err)
	}
	for line, want := range map[string]string{
		"": "--role is needed", "--role boss": `"boss" is no role`, "--role read --expires soon": "--expires",
	} {
		out, code := belfry(t, append([]string{"key", "create", "n"}, strings.Fields(line)...)...)
		if code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", line, code, out)
		}
	}
}

// A root key needs no node. A file that takes it, or another new key, is closed to others before it holds anything.
func TestNewRootKey(t *testing.T) {
	out, notes, err := ran(t, "key", "new-root")
	if _, wrong := access.ParseKey(strings.TrimSpace(out)); err != nil || wrong != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%v %v, printed %q", err, wrong, out)
	}
	if strings.Contains(notes, strings.TrimSpace(out)) || !strings.Contains(notes, "--root-key-file") {
		t.Errorf("noted %q", notes)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "root.key"))
	assert.NoError(t, err)
	defer func() { _ = file.Close() }()
	assert.NoError(t, file.Chmod(0o644))
	a := serveKeys(t, 201, newShopKey)
	for _, line := range []string{"key new-root", "key create n --role read --addr " + a.url} {
		assert.NoError(t, file.Chmod(0o644))
		root := newRoot()
		root.SetOut(file)
		root.SetErr(io.Discard)
		root.SetArgs(strings.Fields(line))
		assert.NoError(t, root.ExecuteContext(t.Context()))
		info, err := file.Stat()
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%s: %v, the mode is %v", line, err, info.Mode())
		}
	}
}

// Keys, namespaces and callers are shown, and calls go to their paths, whatever BELFRY_NAMESPACE is.
func TestKeyAndNamespaceCommands(t *testing.T) {
	t.Setenv("BELFRY_NAMESPACE", "elsewhere")
	answer := `{"kind":"key","id":"abcdefghij","name":"shop","namespace":"orders","grants":[{"role":"read","namespace":"orders"}]}`
	for _, test := range []struct{ line, answer, uri, want string }{
		{"key list", `{"keys":[{` + shopKey + `}]}`, "GET /v1/keys", "schedule in orders (queues mails*); read in all namespaces  never    never"},
		{"key list", `{"keys":[]}`, "GET /v1/keys", "there is no key"},
		{"key list --json", `{"keys":[{` + shopKey + `}]}`, "GET /v1/keys", `"last_used_at":null}`},
		{"key show abcdefghij", `{` + shopKey + `}`, "GET /v1/keys/abcdefghij", "may        read in all namespaces"},
		{"key revoke abcdefghij --yes", `{}`, "DELETE /v1/keys/abcdefghij", "key abcdefghij is revoked"},
		{"namespace put orders --max-pending 1000 --max-bytes 1MiB --weight 2", ordersJSON, "PUT /v1/namespaces/orders",
			"pending tasks  12 of 1000"},
		{"namespace show orders", ordersJSON, "GET /v1/namespaces/orders", "bytes          2KiB of 1MiB"},
		{"namespace show orders", ordersJSON, "GET /v1/namespaces/orders", "queues         4 of 9"},
		{"namespace show orders", ordersJSON, "GET /v1/namespaces/orders", "calls          12.5 of 100 a second"},
		{"key show abcdefghij", `{` + shopKey + `,"quotas":{"calls_per_second":5}}`, "GET /v1/keys/abcdefghij",
			"calls      at most 5 a second"},
		{"namespace list", `{"namespaces":[` + ordersJSON + `]}`, "GET /v1/namespaces", "orders     active  1000"},
		{"namespace delete orders --yes", `{"id":"op-1","kind":"delete_namespace","namespace":"orders","state":"running"}`,
			"DELETE /v1/namespaces/orders", "delete namespace orders"},
		{"whoami", answer, "GET /v1/whoami", "may        read in orders"},
	} {
		a := serveKeys(t, 200, test.answer)
		out, notes, err := ran(t, append(strings.Fields(test.line), "--addr", a.url)...)
		if err != nil || a.uri != test.uri || !strings.Contains(out, test.want) || notes != "" {
			t.Errorf("belfry %s: %v, asked %s, noted %q\n%s", test.line, err, a.uri, notes, out)
		}
	}
	a := serveKeys(t, 200, ordersJSON)
	if _, _, err := ran(t, "namespace", "put", "orders", "--max-payload", "16KiB", "--max-bytes", "1MiB", "--addr", a.url); err != nil ||
		a.body != `{"max_bytes":1048576,"max_payload":16384}` {
		t.Errorf("%v, sent %s", err, a.body)
	}
}

// A namespace is not deleted without a yes, and the question has the number of its tasks.
func TestNamespaceDeletionIsConfirmed(t *testing.T) {
	a := serveKeys(t, 200, ordersJSON)
	out, code := belfry(t, "namespace", "delete", "orders", "--addr", a.url)
	if code != exitUsage || !strings.Contains(out, "--yes") || a.uri != "" {
		t.Errorf("%d %s, asked %s", code, out, a.uri)
	}
	question := deletionQuestion(&client.Namespace{Name: "orders", Used: &client.Usage{Pending: 12, Dead: 3}})
	const want = "this deletes namespace orders with 12 unfinished tasks and 3 dead letters for ever; " +
		"type the name of the namespace (or yes): "
	assert.Equal(t, question.String(), want, "%v", question)
}

// The key comes from a file, or from the environment if no file is named. The namespace is in the paths.
func TestConnectionFromFlagsAndEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.key")
	assert.NoError(t, os.WriteFile(file, []byte("in-file\n"), 0o600))
	for _, test := range []struct{ line, env, key, uri string }{
		{"task get a", "", "", "GET /v1/tasks/a"},
		{"task get a --key-file " + file, "BELFRY_KEY=in-env", "Bearer in-file", "GET /v1/tasks/a"},
		{"task get a", "BELFRY_KEY=in-env", "Bearer in-env", "GET /v1/tasks/a"},
		{"task get a", "BELFRY_KEY_FILE=" + file, "Bearer in-file", "GET /v1/tasks/a"},
		{"task get a --namespace orders", "BELFRY_NAMESPACE=x", "", "GET /v1/namespaces/orders/tasks/a"},
		{"task get a", "BELFRY_NAMESPACE=orders", "", "GET /v1/namespaces/orders/tasks/a"},
	} {
		t.Run(test.line+" "+test.env, func(t *testing.T) {
			if name, value, set := strings.Cut(test.env, "="); set {
				t.Setenv(name, value)
			}
			a := serveKeys(t, 200, taskJSON)
			_, _, err := ran(t, append(strings.Fields(test.line), "--addr", a.url)...)
			if err != nil || a.key != test.key || a.uri != test.uri {
				t.Errorf("%v, asked %s with %q", err, a.uri, a.key)
			}
		})
	}
	for line, want := range map[string]string{
		"--key-file /does/not/exist": "/does/not/exist", "--ca /does/not/exist": "/does/not/exist",
		"--client-cert x.pem": "has no key", "--namespace A": "Config.Namespace",
	} {
		if out, code := belfry(t, append(strings.Fields("task get a --addr 127.0.0.1:1"), strings.Fields(line)...)...); code == 0 ||
			!strings.Contains(out, want) {
			t.Errorf("%s: %d %s", line, code, out)
		}
	}
}

// Errors of keys and of TLS have a remedy, and come at once.
func TestRemediesOfKeysAndTLS(t *testing.T) {
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	plain := serveKeys(t, 401, `{"type":"urn:belfry:problem:unauthenticated","title":"The call shows no credentials."}`)
	for _, test := range []struct{ addr, want string }{
		{plain.url, "--key-file"}, {tls.URL, "--ca"},
		{strings.Replace(plain.url, "http:", "https:", 1), "name it as http://"},
		{strings.Replace(tls.URL, "https:", "http:", 1), "name it as https://"},
	} {
		root := newRoot()
		root.SetArgs([]string{"task", "get", "a", "--addr", test.addr, "--timeout", "1h"})
		cmd, err := root.ExecuteContextC(t.Context())
		if err == nil || !strings.Contains(cli.Explain(cmd, err), test.want) {
			t.Errorf("%s: %v", test.addr, err)
		}
		assert.Equal(t, exitCode(cmd, err), exitFailed, "%s: exit code", test.addr)
	}
}

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
