package node

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/client/webhook"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node/internal/profiles"
)

// The secrets that the test plants. No output of a node may show one of them.
const (
	canaryKey      = "canary-signing-key-of-32-bytes!!" // of the queue
	canaryHeader   = "Bearer canary-header-of-the-queue"
	canaryBroker   = "canary-password-of-a-broker"
	canaryCaller   = "bfy_canarycall_canary-key-of-a-caller_abcdefg"
	canaryMisplace = "canary-misplaced-by-a-caller"
)

// canaries are the texts to look for: each secret, and the forms in which it travels.
var canaries = []string{
	canaryKey, base64.StdEncoding.EncodeToString([]byte(canaryKey)), canaryHeader, canaryBroker, canaryCaller, canaryMisplace,
}

func checkNoCanary(t *testing.T, where string, data []byte) {
	t.Helper()
	for _, canary := range canaries {
		if at := bytes.Index(data, []byte(canary)); at >= 0 {
			t.Errorf("%s shows %q: …%q…", where, canary, data[max(at-60, 0):min(at+60, len(data))])
		}
	}
}

// receiver verifies requests with the canaries, refuses the first of each task, and counts the others.
type receiver struct {
	url      string
	verified chan string // task ids
	refused  sync.Map    // of task ids
}

func newReceiver(t *testing.T, cfg Config) *receiver {
	t.Helper()
	v, err := webhook.New(webhook.Config{
		Secrets: []string{"whsec_" + base64.StdEncoding.EncodeToString([]byte(canaryKey))},
	})
	assert.NoError(t, err)
	r := &receiver{verified: make(chan string, 100)}
	r.url = serve(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			_, err = v.Verify(req.Context(), req.Header, body)
		}
		id := req.Header.Get("ce-subject")
		switch _, again := r.refused.LoadOrStore(id, true); {
		case err != nil && !errors.Is(err, webhook.ErrStale) || req.Header.Get("Authorization") != canaryHeader:
			t.Errorf("%s: %v, %v", id, err, req.Header)
			w.WriteHeader(http.StatusUnauthorized)
		case !again:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		default:
			r.verified <- id
		}
	}))
	return r
}

func (r *receiver) await(t *testing.T, id string) {
	t.Helper()
	assert.Equal(t, <-r.verified, id)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// secretConfig returns the settings of a node with a cluster key and a broker, and its log.
func secretConfig(t *testing.T) (Config, *assert.Log) {
	t.Helper()
	cfg, logged := testConfig(t), &assert.Log{}
	cfg.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.ClusterKeyFile = write(t, "keys", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))+"\n")
	cfg.WebhookNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	var err error
	if cfg.Brokers, err = broker.LoadKnown(write(t, "brokers", "nats://127.0.0.1:1:\n  user: belfry\n  password: "+
		canaryBroker+"\n")); err != nil {
		t.Fatal(err)
	}
	return cfg, logged
}

// TestNoSecretShows plants secrets in a node with a cluster key, makes calls and deliveries that succeed and fail, and
// looks for the secrets in everything that the node shows and stores. Then a new cluster is made of a backup.
func TestNoSecretShows(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg, logged := secretConfig(t)
		to := newReceiver(t, cfg)
		n, c := start(t, cfg)
		until(t, func() bool { return n.cluster.Secrets().Key != "" })

		queue := client.Queue{
			Name: "q", Secrets: []string{"whsec_" + base64.StdEncoding.EncodeToString([]byte(canaryKey))},
			Retry:  &client.Retry{MinBackoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond},
			Target: &client.Target{URL: to.url, Headers: map[string]string{"authorization": canaryHeader}},
		}
		_, err := c.PutQueue(t.Context(), queue)
		assert.NoError(t, err)
		_, err = c.Schedule(t.Context(), client.Task{ID: "signed", Queue: "q"})
		assert.NoError(t, err)
		to.await(t, "signed")
		callers, url := plain(t, cfg), "http://"+n.HTTPAddr()
		failSecretCalls(t, callers, c, url)

		checkNoCanary(t, "the log", []byte(logged.String()))
		assert.Contains(t, logged.String(), "level=DEBUG", "the log has no detail")
		records := get(t, callers, url+"/v1/audit?limit=1000")
		for _, want := range []string{`"signing.secrets"`, `"target.headers"`, `"foreign-origin"`} {
			assert.Contains(t, records, want, "/v1/audit")
		}
		for _, path := range []string{"/v1/audit?limit=1000", "/metrics", "/v1/queues/q", "/v1/queues", "/v1/tasks", "/v1/cluster",
			"/v1/doctor"} {
			checkNoCanary(t, path, []byte(get(t, callers, url+path)))
		}
		for _, path := range []string{"heap?debug=1", "goroutine?debug=2", "allocs?debug=1", "heap"} {
			w := httptest.NewRecorder()
			profiles.New().ServeHTTP(w, httptest.NewRequest("GET", "/debug/pprof/"+path, http.NoBody))
			checkNoCanary(t, path, w.Body.Bytes())
		}
		var backup bytes.Buffer
		_, err = c.Backup(t.Context(), &backup, client.BackupOptions{})
		assert.NoError(t, err)
		checkNoCanary(t, "the backup", backup.Bytes())
		checkFiles(t, cfg.DataDir)
		restoreSecrets(t, cfg, &backup, n.cluster.Secrets().Key, to)
	})
}

// failSecretCalls makes calls with secrets that fail in different ways, and deliveries that do.
func failSecretCalls(t *testing.T, callers *http.Client, c *client.Client, url string) {
	t.Helper()
	secret := `"signing":{"secrets":["whsec_` + base64.StdEncoding.EncodeToString([]byte(canaryKey)) + `"]}`
	for _, call := range [][]string{
		{"PUT", "/v1/queues/q", `{` + secret + `,"max_in_flight":-1}`},
		{"PUT", "/v1/queues/q", `{` + secret + `,"` + canaryMisplace + `":1}`},
		{"PUT", "/v1/queues/q", `{` + secret + `,` + secret + `}`},
		{"PUT", "/v1/queues/q", `{"signing":{"secrets":["whsec_` + canaryMisplace + `"]}}`},
		{"PUT", "/v1/queues/q", `{"signing":{"secrets":["` + canaryKey + `"]}`},
		{"PUT", "/v1/queues/bad%20name", `{` + secret + `}`},
		{"PATCH", "/v1/queues/other", `{"target":{"headers":{"authorization":"` + canaryHeader + `"}}}`},
		{"POST", "/v1/queues/q/pause", ``, "Origin", "https://evil.example"},
		{"POST", "/v1/queues/q/resume", ``, "X-Request-Id", canaryCaller},
		{"GET", "/v1/queues/q", ``, "Authorization", "Bearer " + canaryCaller},
	} {
		req, err := http.NewRequestWithContext(t.Context(), call[0], url+call[1], strings.NewReader(call[2]))
		assert.NoError(t, err)
		if call[2] != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		for i := 3; i < len(call); i += 2 {
			req.Header.Set(call[i], call[i+1])
		}
		resp, err := callers.Do(req)
		assert.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, errors.Join(err, resp.Body.Close()))
		if !strings.Contains(call[2], canaryMisplace) { // an error names an unknown member to its own caller
			checkNoCanary(t, call[0]+" "+call[1], body)
		}
	}
	for _, target := range []string{"nats://127.0.0.1:1/subject", "http://127.0.0.1:1/"} {
		id := "fails-" + target[:4]
		_, err := c.Schedule(t.Context(), client.Task{ID: id, Target: &client.Target{URL: target}})
		assert.NoError(t, err)
		until(t, func() bool {
			task, err := c.Get(t.Context(), id)
			assert.NoError(t, err)
			checkNoCanary(t, id, []byte(task.LastError))
			return task.LastError != ""
		})
	}
}

// checkFiles looks for the canaries in all files of a folder.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("authorization")) {
			seen++ // the policy is somewhere
		}
		checkNoCanary(t, path, data)
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files with a policy, %v", seen, err)
	}
}

// restoreSecrets makes a new cluster of a backup. With the key file it signs as the old one did.
func restoreSecrets(t *testing.T, old Config, backup io.Reader, key string, to *receiver) {
	t.Helper()
	cfg, _ := secretConfig(t)
	cfg.Network = old.Network
	report, err := recovery.Restore(t.Context(), recovery.RestoreConfig{From: backup, Dir: cfg.DataDir})
	assert.NoError(t, err)
	if len(report.ClusterKeys) != 1 || report.ClusterKeys[0] != key {
		t.Errorf("the restore needs keys %v, not %s", report.ClusterKeys, key)
	}
	_, c := start(t, cfg)
	if _, err := c.Schedule(t.Context(), client.Task{ID: "after-the-restore", Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	to.await(t, "after-the-restore")
}

func get(t *testing.T, callers *http.Client, url string) string {
	t.Helper()
	status, body := request(t, callers, http.MethodGet, url)
	assert.MustEqual(t, status, http.StatusOK, "%s:\n%s", url, body)
	return body
}
