package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// watchedWriter reports the number of records at the first byte of an answer.
type watchedWriter struct {
	*httptest.ResponseRecorder
	book *auditBook
	seen int // -1: there was no answer yet
}

func (w *watchedWriter) WriteHeader(status int) {
	w.look()
	w.ResponseRecorder.WriteHeader(status)
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	w.look()
	return w.ResponseRecorder.Write(b)
}

func (w *watchedWriter) look() {
	if w.seen < 0 {
		w.book.mu.Lock()
		defer w.book.mu.Unlock()
		w.seen = len(w.book.changes)
	}
}

// A caller that has the first byte of an answer finds the record of the call, whatever its outcome.
func TestRecordsComeBeforeAnswers(t *testing.T) {
	h, book := newAudited(t)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/v1/queues/q", `{"max_in_flight":3}`, 201},
		{"PUT", "/v1/queues/q", `{"max_in_flight":-3}`, 400},
		{"POST", "/v1/queues/q/pause", ``, 200},
		{"POST", "/v1/nodes/tokens", ``, 201},
		{"DELETE", "/v1/nodes/tokens/none", ``, 404},
		{"POST", "/v1/shards/balance", `{}`, 202},
		{"DELETE", "/v1/queues/q", ``, 200},
		{"GET", "/v1/backup", ``, 200},
	} {
		recorder, r := recorded(c.method, c.path, c.body)
		r.Header.Set("Authorization", "operator")
		w := &watchedWriter{recorder, book, -1}
		h.server.ServeHTTP(w, r)
		if w.seen != 1 || w.Code != c.status {
			t.Errorf("%s %s: %d with %d records before it", c.method, c.path, w.Code, w.seen)
		}
		book.take(t)
	}
}

// A change without room for its record is refused and not carried out. It gives its rooms back.
func TestChangesNeedRoom(t *testing.T) {
	h, book := newAudited(t)
	book.full, book.rooms = 5, 5
	p := h.call("PUT", "/v1/queues/q", `{"max_in_flight":3}`, "Authorization", "operator").mustProblem(t, 503, "")
	if p["committed"] != "no" || !strings.Contains(p["detail"].(string), "audit log") || len(h.fake.queues.policies) != 0 {
		t.Errorf("%v, %v", p, h.fake.queues.policies)
	}
	book.rooms = 4 // a backup needs two
	h.call("GET", "/v1/backup", "", "Authorization", "operator").mustStatus(t, 503)
	if book.rooms != 4 || len(book.changes) != 0 {
		t.Errorf("%d rooms, %v", book.rooms, book.changes)
	}
	book.rooms = 5 // which reads and refusals do not need
	h.call("GET", "/v1/queues", "", "Authorization", "operator").mustStatus(t, 200)
	h.call("PUT", "/v1/queues/q", `{}`, "Authorization", "reader").mustStatus(t, 403)
	assert.Equal(t, len(book.refusals), 1, "%v", book.refusals)
}

// A backup has a record before it takes anything, and one with its outcome and size.
func TestBackupIsRecordedTwice(t *testing.T) {
	h, book := newAudited(t)
	ended := make(chan struct{}, 1) // the client of a broken-off call is back before its handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		h.server.ServeHTTP(w, r)
	}))
	defer server.Close()
	begun := -1
	fail := errors.New("the leader has died")
	for _, c := range []struct {
		query  string
		backup func(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error)
		want   string
	}{
		{"", nil, `"status":200,"outcome":"done","begun":"2026-`},
		{"", nil, `"bytes":6`},
		{"?rate=5000", nil, `"fields":["rate"],"status":200`},
		{"?rate=1", nil, `"status":400,"problem":"invalid-field","outcome":"failed","begun":"2026-`},
		{"", func(context.Context, io.Writer, int64) (BackupSummary, error) {
			return BackupSummary{}, task.ErrNotProposed
		},
			`"status":503,"problem":"not-committed","outcome":"failed","begun":"2026-`},
		{"", func(_ context.Context, w io.Writer, _ int64) (BackupSummary, error) {
			_, err := io.WriteString(w, strings.Repeat("x", 100_000))
			return BackupSummary{}, errors.Join(err, fail)
		}, `"status":200,"outcome":"failed","begun":"2026-`},
		{"", func(context.Context, io.Writer, int64) (BackupSummary, error) { panic("a flaw") },
			`"status":500,"problem":"internal","outcome":"unknown"`},
	} {
		usual := c.backup
		if usual == nil {
			usual = func(_ context.Context, w io.Writer, _ int64) (BackupSummary, error) {
				_, err := io.WriteString(w, "backup")
				return BackupSummary{}, err
			}
		}
		h.fake.backup = func(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error) {
			book.mu.Lock()
			begun = len(book.changes)
			book.mu.Unlock()
			return usual(ctx, w, rate)
		}
		begun = 1
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/backup"+c.query, http.NoBody)
		assert.NoError(t, err)
		r.Header.Set("Authorization", "operator")
		resp, err := server.Client().Do(r)
		assert.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body) // some are broken off
		_ = resp.Body.Close()
		<-ended
		changes, _ := book.take(t)
		first, second, two := strings.Cut(changes, "\n")
		if !two || begun != 1 || !strings.Contains(first, `"status":0,"outcome":"begun","begun":"2026-`) ||
			strings.Contains(first, "fields") || !strings.Contains(second, c.want) {
			t.Errorf("%d records before the backup: %s, want %s", begun, changes, c.want)
		}
	}
}

// A change whose handler panics is recorded, with an unknown outcome.
func TestPanicIsRecorded(t *testing.T) {
	h, book := newAudited(t, func(c *Config) { c.Receivers = urlCheck(func(string) *task.FieldError { panic("a flaw") }) })
	h.call("PUT", "/v1/queues/q", `{"target":{"url":"https://shop.example"}}`, "Authorization", "operator").
		mustStatus(t, 500)
	changes, _ := book.take(t)
	assert.Equal(t, strings.Count(changes, `"status":500,"problem":"internal","outcome":"unknown"`), 1, "%s", changes)
}

// leftBackend is a backend whose caller leaves during a change.
type leftBackend struct {
	Backend
	leave context.CancelFunc
}

func (b *leftBackend) PutQueue(ctx context.Context, _ *fsmpb.QueuePolicy) (bool, error) {
	b.leave()
	<-ctx.Done()
	return false, ctx.Err()
}

// The change of a caller that leaves is recorded, with an unknown outcome.
func TestCallerThatLeavesIsRecorded(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	h, book := newAudited(t, func(c *Config) { c.Backend = &leftBackend{c.Backend, leave} })
	w, r := recorded("PUT", "/v1/queues/q", `{"max_in_flight":3}`)
	r.Header.Set("Authorization", "operator")
	h.server.ServeHTTP(w, r.WithContext(ctx))
	changes, _ := book.take(t)
	assert.Contains(t, changes, `"status":504,"problem":"outcome-unknown","outcome":"unknown"`)
}

// fileBook is an audit log in files.
type fileBook struct{ *audit.Log }

func (fileBook) Read(context.Context, AuditQuery) (*AuditPage, error) { return &AuditPage{}, nil }

// TestRecordsHaveNoSecret puts keys, tokens and passwords everywhere where a caller can put a text, and looks for them
// in the files of the audit log. A caller without accepted credentials gets no text at all into them. The ids and names
// that a caller with accepted credentials chooses are names, and lack only texts in the form of a secret.
func TestRecordsHaveNoSecret(t *testing.T) {
	const password = "correct-horse-7"
	secrets := map[string]bool{ // whether the text has the form of a secret
		"bfy_k3v9x2ab_5WdQ2vS8hT4yPz7Lr1NcXb6Mf3Jg9KaE_0a1b2c":  true,
		"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.c2lnbmF0dXJl": true,
		"eyJhbGciOiJSUzI1NiJ9":                                  true,
		"whsec_Y2FuYXJ5LXNpZ25pbmcta2V5LW9mLTM":                 true,
		"password=" + password:                                  true,
		"https://jane:" + password + "@host":                    true,
		"Basic amFuZTpjb3JyZWN0LWhvcnNl":                        true,
		password:                                                false,
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(audit.Config{Path: path})
	assert.NoError(t, err)
	h, _ := newAudited(t, func(c *Config) { c.Audit = fileBook{log} })
	var guardedRecords int
	guarded := Guarded(GuardConfig{
		Handler: http.NewServeMux(), Role: access.Operate, Access: admit{}, Origins: testOrigins(t),
		Logger: h.server.cfg.Logger, Records: refusalsTo(func(r audit.Record) {
			if guardedRecords++; r.Route != "none" {
				t.Errorf("the path is recorded: %s", r.Route)
			}
			log.Refuse(r)
		}),
	})
	calls := 0
	for secret, hasForm := range secrets {
		for _, key := range []string{"", "Bearer " + secret, secret, "operator", "reader", "admin"} {
			accepted := key == "operator" || key == "reader" || key == "admin"
			for _, c := range twice(secretCalls(secret, hasForm || !accepted)) {
				w, r := recorded("GET", "/", c.body)
				r.Method, r.URL.Path, r.URL.RawQuery = c.method, c.path, c.query
				r.Header.Set("Authorization", key)
				for _, name := range []string{
					"User-Agent", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cookie", "Referer", "Idempotency-Key", "Traceparent",
				} {
					r.Header.Set(name, secret)
				}
				if hasForm || !accepted {
					r.Header.Set("X-Request-Id", secret)
				}
				odd := calls % 2 // each call comes without these, too
				if odd*calls%3 == 1 {
					r.Header.Set("Origin", secret)
				}
				if odd*calls%5 == 1 {
					r.Host = secret
				}
				if odd*calls%7 == 1 {
					r.RemoteAddr = secret
				}
				calls++
				h.server.ServeHTTP(w, r)
				if !accepted {
					guarded.ServeHTTP(httptest.NewRecorder(), r)
				}
			}
		}
	}
	assert.NoError(t, log.Close())
	var text strings.Builder
	for _, name := range []string{path, audit.RefusalsPath(path)} {
		data, err := os.ReadFile(name)
		if err != nil || strings.Count(string(data), "\n") < 10 {
			t.Errorf("%v, %s", err, data)
		}
		text.Write(data)
	}
	for secret := range secrets {
		quoted, err := json.Marshal(secret)
		assert.NoError(t, err)
		for _, form := range []string{secret, strings.Trim(string(quoted), `"`)} {
			if at := strings.Index(text.String(), form); at >= 0 {
				t.Errorf("%s: …%s", secret, text.String()[max(at-300, 0):at+len(form)])
			}
		}
	}
	if !strings.Contains(text.String(), redactedText) || guardedRecords < 50 || calls < 300 {
		t.Errorf("%d calls, %d guarded: %.2000s", calls, guardedRecords, text.String())
	}
}

// twice returns each call twice, one after the other.
func twice(calls []secretCall) []secretCall {
	var all []secretCall
	for _, c := range calls {
		all = append(all, c, c)
	}
	return all
}

type secretCall struct{ method, path, query, body string }

// secretCalls returns calls with a text everywhere, and in the names of things only if inNames is set.
func secretCalls(text string, inNames bool) []secretCall {
	quoted, _ := json.Marshal(text) // of a string, which never fails
	calls := []secretCall{
		{"PUT", "/v1/queues/q", "", `{"labels":{` + string(quoted) + `:1}}`},
		{"PUT", "/v1/queues/q", "", `{` + string(quoted) + `:{` + string(quoted) + `:` + string(quoted) + `}}`},
		{"PUT", "/v1/queues/q", "",
			`{"target":{"url":"https://shop.example","headers":{"authorization":` + string(quoted) + `}}}`},
		{"POST", "/v1/queues/q/pause", text, ""},
		{"POST", "/v1/queues/q/dead/replay", "id=" + text, ""},
		{"GET", "/v1/backup", "rate=" + text, ""},
		{"GET", "/v1/backup", text + "=1", ""},
		{"POST", "/v1/keys", "", `{"name":"n","grants":[{"role":"read","namespace":` + string(quoted) + `}]}`},
		{"GET", "/v1/audit", "after=" + text, ""},
		{text, "/v1/queues/q", "", ""},
	}
	if !inNames {
		return calls
	}
	for _, form := range []string{
		"/v1/queues/*", "/v1/queues/*/pause", "/v1/tasks/*", "/v1/keys/*", "/v1/nodes/*/drain", "/v1/operations/*",
		"/v1/namespaces/*", "/v1/namespaces/*/queues/*", "/v1/nodes/tokens/*", "/*", "/debug/pprof/*",
	} {
		path := strings.ReplaceAll(form, "*", text)
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			calls = append(calls, secretCall{method, path, "", ""})
		}
	}
	return calls
}
