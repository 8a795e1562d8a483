package node

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// fixture is a data folder of the first build, with the answers that this build gave. `make fixture` has written it.
const fixture = "testdata/first.tar.gz"

// answers is the list of answers in the fixture.
type answers struct {
	At      time.Time
	Tasks   []given
	Queues  []given
	Repeats []struct {
		Path, Key string
		Body      json.RawMessage
		Status    int
		ETag      string
	}
}

type given struct {
	Path, ETag string
	Body       map[string]any
}

// TestFolderOfTheFirstBuild opens a copy of a data folder of the first build, and compares every task and queue with
// that build's answers, again after a restart. Then calls with old keys change nothing.
func TestFolderOfTheFirstBuild(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		dir := t.TempDir()
		unpack(t, dir)
		var want answers
		data, err := os.ReadFile(filepath.Join(dir, "answers.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if len(want.Tasks) < 1300 || len(want.Repeats) < 300 || len(want.Queues) == 0 {
			t.Fatalf("the fixture has %d tasks, %d calls", len(want.Tasks), len(want.Repeats))
		}
		cfg := testConfig(t)
		cfg.DataDir = filepath.Join(dir, "data")
		cfg.WebhookNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} // of the receiver at that time
		callers := plain(t, cfg)
		<-time.After(time.Until(want.At)) // later no lease ends and no task comes due before the test has read it
		for range 2 {
			n := startReady(t, cfg)
			for _, answer := range slices.Concat(want.Tasks, want.Queues) {
				compare(t, callers, n, answer)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
		n := startReady(t, cfg)
		defer func() {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}()
		for _, call := range want.Repeats {
			status, etag, body := ask(t, callers, n, http.MethodPut, call.Path, call.Key, call.Body)
			if status != call.Status || etag != call.ETag {
				t.Errorf("PUT %s again: %d with %s, not %d with %s: %s", call.Path, status, etag, call.Status, call.ETag, body)
			}
		}
	})
}

// unpack extracts the fixture.
func unpack(t *testing.T, to string) {
	t.Helper()
	file, err := os.Open(fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = extract(filepath.Join(to, filepath.FromSlash(header.Name)), header, archive)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func extract(path string, header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeDir {
		return os.MkdirAll(path, 0o755)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// startReady starts a node, and waits until it is ready.
func startReady(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	dial(t, n)
	return n
}

// compare repeats a read of the fixture. The answer has all fields of the recorded one, and perhaps newer ones.
func compare(t *testing.T, callers *http.Client, n *Node, want given) {
	t.Helper()
	status, etag, body := ask(t, callers, n, http.MethodGet, want.Path, "", nil)
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK || etag != want.ETag {
		t.Errorf("%s: %d with %s, not with %s: %s", want.Path, status, etag, want.ETag, body)
		return
	}
	for field, value := range want.Body {
		if !reflect.DeepEqual(got[field], value) {
			t.Errorf("%s: %s is %v, and was %v", want.Path, field, got[field], value)
		}
	}
}

func ask(t *testing.T, callers *http.Client, n *Node, method, path, key string, body []byte) (
	status int, etag string, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.HTTPAddr()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := callers.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("ETag"), answer
}
