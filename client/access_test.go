package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

const testKey = "bfy_abcdefghij_secretsecretsecret_checksm"

// eachCall makes every call of the client once. Most of the answers are unreadable, which does not matter.
func eachCall(t *testing.T, c *Client) {
	ctx := t.Context()
	none := func(...any) {}
	none(c.Schedule(ctx, Task{ID: "a"}))
	none(c.Schedule(ctx, Task{}, WithKey("k")))
	none(c.Cancel(ctx, "a"))
	none(c.PreviewSchedule(ctx, Repeat{Cron: []string{"@daily"}}, 0))
	none(c.PutSchedule(ctx, Schedule{ID: "a"}))
	none(c.GetSchedule(ctx, "a"))
	none(c.PatchSchedule(ctx, "a", SchedulePatch{Note: "n"}))
	none(c.DeleteSchedule(ctx, "a"))
	none(c.PauseSchedule(ctx, "a", "n"))
	none(c.ResumeSchedule(ctx, "a", ""))
	none(c.FireSchedule(ctx, "a"))
	none(c.SkipOccurrence(ctx, "a"))
	none(c.Backfill(ctx, "a", time.Now(), time.Now()))
	none(c.Occurrences(ctx, "a", 1, 1))
	for _, err := range c.Schedules(ctx, ScheduleFilter{}) {
		none(err)
	}
	none(c.Touch(ctx, "a", Touch{}))
	none(c.FireNow(ctx, "a"))
	none(c.Patch(ctx, "a", Patch{Delay: time.Hour}))
	none(c.Get(ctx, "a"))
	none(c.GetStale(ctx, "a"))
	for _, err := range c.List(ctx, Filter{}) {
		none(err)
	}
	for range c.Batch(ctx, slices.Values([]Op{CancelOp("a")})) {
		break
	}
	none(c.BatchLines(ctx, strings.NewReader(`{"op":"fire","id":"a"}`), func([]byte) error { return nil }))
	none(c.Lease(ctx, "q", Demand{}))
	none(c.Settle(ctx, "q", Settlement{Ack: []string{"r"}}))
	none(c.Consume(ctx, "q", ConsumeOptions{}, nil))
	none(c.PutQueue(ctx, Queue{Name: "q"}))
	none(c.PatchQueue(ctx, "q", QueuePatch{MaxInFlight: 1}))
	none(c.PauseQueue(ctx, "q"))
	none(c.ResumeQueue(ctx, "q"))
	none(c.Queue(ctx, "q"))
	none(c.DeleteQueue(ctx, "q"))
	for _, err := range c.Queues(ctx) {
		none(err)
	}
	none(c.Replay(ctx, "q", DeadFilter{}))
	none(c.DropDead(ctx, "q", DeadFilter{}))
	none(c.Cluster(ctx))
	none(c.Nodes(ctx))
	none(c.NewJoinToken(ctx, 0))
	none(c.JoinTokens(ctx))
	none(c.RemoveJoinToken(ctx, "t"))
	none(c.Doctor(ctx))
	none(c.Operations(ctx))
	none(c.Operation(ctx, "o"))
	none(c.StopOperation(ctx, "o"))
	none(c.Begin(ctx, OperationRequest{Kind: Drain, Node: "n"}))
	none(c.Preview(ctx, OperationRequest{Kind: Balance}))
	none(c.Backup(ctx, io.Discard, BackupOptions{}))
	none(c.CreateKey(ctx, KeyRequest{}))
	none(c.Keys(ctx))
	none(c.Key(ctx, "k"))
	none(c.RotateKey(ctx, "k", 0))
	none(c.RevokeKey(ctx, "k"))
	none(c.PutNamespace(ctx, "n", Quotas{}))
	none(c.Namespaces(ctx))
	none(c.Namespace(ctx, "n"))
	none(c.DeleteNamespace(ctx, "n"))
	none(c.WhoAmI(ctx))
}

// TestEachCallCarriesTheKey checks that every call has the key, and that the calls about tasks and queues, and no
// others, go to the namespace.
func TestEachCallCarriesTheKey(t *testing.T) {
	refuse := answer(http.StatusTeapot, "")
	for _, single := range []bool{false, true} {
		c, s := start(t, Config{Key: NewSecret(testKey + "\n"), Namespace: "orders", SingleCalls: single})
		s.exhaust, s.view = refuse, true
		eachCall(t, c)
		c.Close()
		got := s.requests()
		if len(got) < 55 {
			t.Fatalf("%d calls", len(got))
		}
		for _, r := range got {
			assert.Equal(t, r.header.Get("Authorization"), "Bearer "+testKey, "%s %s: the key", r.method, r.uri)
			inside := strings.HasPrefix(r.uri, "/v1/namespaces/orders/")
			about := strings.TrimPrefix(r.uri, "/v1/namespaces/orders")
			if !inside {
				about = strings.TrimPrefix(r.uri, "/v1")
			}
			noun := strings.FieldsFunc(about, func(r rune) bool { return r == '/' || r == '?' })[0]
			if inside != slices.Contains([]string{"tasks", "schedules", "queues", "batch", "preview"}, noun) {
				t.Errorf("%s %s", r.method, r.uri)
			}
		}
	}
}

// TestKeyStaysWithItsHost checks that a redirect to another port carries no key and is named in the error, and that a
// redirect within the host is followed with the key.
func TestKeyStaysWithItsHost(t *testing.T) {
	var strange []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		strange = append(strange, r.URL.Path)
		_, _ = io.WriteString(w, `{"id":"a"}`)
	}))
	defer other.Close()
	elsewhere := answer(http.StatusTemporaryRedirect, "", "Location", other.URL+"/stolen?x=1")
	for _, given := range []*http.Client{
		nil, {}, {CheckRedirect: func(*http.Request, []*http.Request) error { return nil }},
	} {
		c, _ := start(t, Config{Key: NewSecret(testKey), HTTPClient: given}, elsewhere, elsewhere, elsewhere, elsewhere)
		var refusal *Error
		_, err := c.Get(t.Context(), "a")
		if !errors.As(err, &refusal) || refusal.Status != http.StatusTemporaryRedirect || errors.Is(err, ErrUnknown) ||
			!strings.Contains(err.Error(), other.URL+"/stolen, and a key is never sent") {
			t.Errorf("%v", err)
		}
		err = c.BatchLines(t.Context(), strings.NewReader("{}"), func([]byte) error { return nil })
		if !errors.As(err, &refusal) {
			t.Errorf("%v", err)
		}
		if _, err := c.Backup(t.Context(), io.Discard, BackupOptions{}); !errors.As(err, &refusal) {
			t.Errorf("%v", err)
		}
		if err := c.Consume(t.Context(), "q", ConsumeOptions{}, nil); !errors.As(err, &refusal) {
			t.Errorf("%v", err)
		}
	}
	if len(strange) > 0 {
		t.Errorf("the other host was asked for %q", strange)
	}

	home := answer(http.StatusTemporaryRedirect, "", "Location", "/v1/tasks/b")
	c, s := start(t, Config{Key: NewSecret(testKey)}, home, answer(200, `{"id":"b"}`))
	task, err := c.Get(t.Context(), "a")
	if err != nil || task.ID != "b" || s.requests()[1].header.Get("Authorization") != "Bearer "+testKey {
		t.Errorf("%+v %v", task, err)
	}
	c, _ = start(t, Config{}, elsewhere)
	if _, err := c.Get(t.Context(), "a"); err != nil || len(strange) != 1 {
		t.Errorf("without a key: %v", err)
	}
}

// TestKeyIsNotShown prints all that knows the key, in all forms.
func TestKeyIsNotShown(t *testing.T) {
	cfg := Config{Key: NewSecret(testKey)}
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"type":"x","detail":"the request was %q"}`, r.Header.Get("Authorization"))
	}
	plain := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprint(w, r.Header)
	}
	c, _ := start(t, Config{Key: cfg.Key, MaxAttempts: 1}, echo, plain,
		answer(201, `{"id":"i","name":"n","key":"`+testKey+`"}`))
	_, echoed := c.Get(t.Context(), "a")
	_, proxied := c.Get(t.Context(), "a")
	made, err := c.CreateKey(t.Context(), KeyRequest{Name: "n"})
	if err != nil || made.Key.Text() != testKey || made.Name != "n" {
		t.Fatalf("%v %v", made, err)
	}
	if !strings.Contains(echoed.Error(), "Bearer ***") || !strings.Contains(proxied.Error(), "Bearer ***") {
		t.Errorf("%v, %v", echoed, proxied)
	}
	nested := struct {
		cfg  Config
		made *NewAPIKey
		all  []any
	}{cfg, made, []any{*made}}
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	for _, v := range []any{cfg, &cfg, cfg.Key, &cfg.Key, c, made, *made, nested, &nested, echoed, proxied} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
			fmt.Fprintf(&log, verb, v)
		}
		logger.Info("x", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
	}
	text, err := json.Marshal(made)
	if err != nil || !strings.Contains(string(text), `"key":"***"`) {
		t.Errorf("%s %v", text, err)
	}
	log.Write(text)
	for _, form := range []string{"secretsecret", fmt.Sprintf("%x", "secretsecret"), fmt.Sprintf("%X", "secretsecret")} {
		if at := strings.Index(log.String(), form); at >= 0 {
			t.Errorf("the key is shown: %q", log.String()[max(0, at-100):at+20])
		}
	}
}

// TestFaultyKeysAreRefused checks that a faulty key is an error without the key, before any request.
func TestFaultyKeysAreRefused(t *testing.T) {
	for _, key := range []string{" \n", "hush hush", "hush\nx", "hüsh", "hush\x00", strings.Repeat("hush", maxKeyBytes)} {
		_, err := New(Config{Addrs: []string{"a:1"}, Key: NewSecret(key)})
		if err == nil || !strings.Contains(err.Error(), "Config.Key") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
	for want, cfg := range map[string]Config{
		"exclude each other": {Key: NewSecret("k"), KeyFile: "f"}, "Config.Namespace": {Namespace: "a/../b"},
		`"-a"`: {Namespace: "-a"}, "1 to 63": {Namespace: strings.Repeat("a", 64)},
		"Config.TLS": {HTTPClient: http.DefaultClient, TLS: must(LoadTLS("", "", ""))},
	} {
		cfg.Addrs = []string{"a:1"}
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, err := New(Config{Addrs: []string{"a:1"}, Key: NewSecret("")})
	assert.Equal(t, err, nil, "an empty key")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestKeyFileIsReadAgain checks that calls use the newest key of the file, and that a file without a key fails calls
// before they are sent.
func TestKeyFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "belfry.key")
	c, s := start(t, Config{KeyFile: file})
	s.exhaust = answer(200, `{"id":"a"}`)
	replace := func(text string) {
		next := filepath.Join(t.TempDir(), "next")
		assert.NoError(t, os.WriteFile(next, []byte(text), 0o600))
		assert.NoError(t, os.Rename(next, file))
	}
	call := func() error { _, err := c.Get(t.Context(), "a"); return err }
	if err := call(); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrUnknown) || len(s.requests()) > 0 {
		t.Errorf("no file: %v, %d requests", err, len(s.requests()))
	}
	for i, key := range []string{"first\n", "first\n", " other "} {
		replace(key)
		if err := call(); err != nil || s.requests()[i].header.Get("Authorization") != "Bearer "+strings.TrimSpace(key) {
			t.Errorf("%q: %v", key, err)
		}
	}
	sent := len(s.requests())
	for text, want := range map[string]string{"\n": "is empty", "hush hush": "no key has",
		strings.Repeat("hush", maxKeyBytes): "longer than"} {
		replace(text)
		if err := call(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	assert.Equal(t, len(s.requests()), sent, "calls without a key were sent")
}

// TestRefusalsMatchByType checks the errors of keys and quotas.
func TestRefusalsMatchByType(t *testing.T) {
	for slug, want := range map[string]error{"unauthenticated": ErrUnauthenticated, "forbidden": ErrForbidden,
		"quota-exceeded": ErrQuotaExceeded, "key-not-found": ErrNotFound, "namespace-not-found": ErrNotFound} {
		c, _ := start(t, Config{}, answer(403, `{"type":"urn:belfry:problem:`+slug+`","title":"t"}`))
		_, err := c.Get(t.Context(), "a")
		assert.ErrorIs(t, err, want, "%s", slug)
	}
}

// TestQuotaIsWaitedFor checks that a call waits as long as the service asks for, and that a quota that time does not
// free ends the call at once.
func TestQuotaIsWaitedFor(t *testing.T) {
	const problem = `{"type":"urn:belfry:problem:quota-exceeded","quota":"%s","limit":10,"used":12}`
	rate, full := fmt.Sprintf(problem, "schedules_per_second"), fmt.Sprintf(problem, "max_pending")
	c, s := start(t, Config{SingleCalls: true}, answer(429, rate, "Retry-After", "3"),
		answer(201, `{"id":"a"}`), answer(429, full))
	_, err := c.Schedule(t.Context(), Task{ID: "a"})
	if err != nil || !slices.Equal(s.waited(), []time.Duration{3 * time.Second}) {
		t.Errorf("%v, waited %v", err, s.waited())
	}
	_, err = c.Schedule(t.Context(), Task{ID: "a"})
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Quota != "max_pending" || refusal.Limit != "10" || refusal.Used != "12" ||
		!errors.Is(err, ErrQuotaExceeded) || errors.Is(err, ErrUnknown) || len(s.requests()) != 3 {
		t.Errorf("%+v, %d requests", refusal, len(s.requests()))
	}
	line := `{"id":"a","status":429,"problem":{"type":"urn:belfry:problem:quota-exceeded","retry_after":2}}` + "\n"
	c, s = start(t, Config{}, answer(200, line), answer(200, created(0, "a")+"\n"))
	_, err = c.Schedule(t.Context(), Task{ID: "a"})
	if err != nil || !slices.Equal(s.waited(), []time.Duration{2 * time.Second}) {
		t.Errorf("a line: %v, waited %v", err, s.waited())
	}
}

// TestKeyCalls checks the requests and the answers of the calls about keys and callers.
func TestKeyCalls(t *testing.T) {
	const record = `"id":"abcdefghij","name":"shop","grants":[{"role":"schedule","namespace":"orders","queues":["q*"]}],
		"created_at":"2026-11-21T10:00:00Z","expires_at":null,"last_used_at":"2026-11-21T11:00:00Z"`
	c, s := start(t, Config{}, answer(201, `{`+record+`,"key":"`+testKey+`"}`), answer(200, `{"keys":[{`+record+`}]}`),
		answer(200, `{`+record+`}`), answer(201, `{`+record+`,"key":"other"}`), answer(204, ""),
		answer(200, `{"kind":"key","id":"abcdefghij","namespace":"orders","grants":[{"role":"read","namespace":"*"}]}`))
	ctx := t.Context()
	grants := []Grant{{Role: RoleSchedule, Namespace: "orders", Queues: []string{"q*"}}}
	made, err := c.CreateKey(ctx, KeyRequest{Name: "shop", Grants: grants, ExpiresAt: time.Unix(1800000000, 0)})
	if err != nil || made.Key.Text() != testKey || made.ExpiresAt != nil || made.Grants[0].Queues[0] != "q*" {
		t.Errorf("%+v %v", made, err)
	}
	list, err := c.Keys(ctx)
	if err != nil || len(list) != 1 || list[0].LastUsedAt.Hour() != 11 {
		t.Errorf("%+v %v", list, err)
	}
	if key, err := c.Key(ctx, "a/b"); err != nil || key.Name != "shop" {
		t.Errorf("%+v %v", key, err)
	}
	if made, err := c.RotateKey(ctx, "k", 24*time.Hour); err != nil || made.Key.Text() != "other" {
		t.Errorf("%+v %v", made, err)
	}
	assert.Equal(t, c.RevokeKey(ctx, "k"), nil)
	caller, err := c.WhoAmI(ctx)
	if err != nil || caller.Kind != "key" || caller.Namespace != "orders" || caller.Grants[0].Namespace != AllNamespaces {
		t.Errorf("%+v %v", caller, err)
	}
	var got []string
	for _, r := range s.requests() {
		got = append(got, strings.TrimSpace(r.method+" "+r.uri+" "+r.body))
	}
	want := []string{
		`POST /v1/keys {"expires_at":"2027-01-15T08:00:00Z","grants":[{"role":"schedule","namespace":"orders",` +
			`"queues":["q*"]}],"name":"shop"}`,
		"GET /v1/keys", "GET /v1/keys/a%2Fb", `POST /v1/keys/k/rotate {"overlap":"24h"}`, "DELETE /v1/keys/k",
		"GET /v1/whoami",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent\n%s", strings.Join(got, "\n"))
	}
}

// TestRevocationIsRepeated checks that a repeat after a lost answer finds the key revoked, and that the first attempt
// for a key that does not exist is an error.
func TestRevocationIsRepeated(t *testing.T) {
	gone := answer(404, `{"type":"urn:belfry:problem:key-not-found"}`)
	c, _ := start(t, Config{}, hangUp, gone, gone)
	assert.Equal(t, c.RevokeKey(t.Context(), "k"), nil)
	assert.ErrorIs(t, c.RevokeKey(t.Context(), "k"), ErrNotFound)
}

// TestNamespaceCalls checks the requests and the answers of the calls about namespaces.
func TestNamespaceCalls(t *testing.T) {
	const orders = `{"name":"orders","max_pending":1000,"weight":2,` +
		`"used":{"pending":7,"dead":2,"bytes":9,"queues":3,"consumers":4,` +
		`"schedules_per_second":1.5,"calls_per_second":6}}`
	c, s := start(t, Config{Namespace: "elsewhere"}, answer(201, orders), answer(200, orders),
		answer(200, `{"namespaces":[`+orders+`]}`), answer(202, `{"id":"op-1","state":"running"}`))
	ctx := t.Context()
	made, err := c.PutNamespace(ctx, "orders", Quotas{MaxPending: 1000, Weight: 2})
	if err != nil || made.MaxPending != 1000 || made.Name != "orders" {
		t.Errorf("%+v %v", made, err)
	}
	read, err := c.Namespace(ctx, "orders")
	used := Usage{
		Pending: 7, Dead: 2, Bytes: 9, Queues: 3, Consumers: 4, SchedulesPerSecond: 1.5, CallsPerSecond: 6,
	}
	if err != nil || read.Used == nil || *read.Used != used {
		t.Errorf("%+v %v", read, err)
	}
	if list, err := c.Namespaces(ctx); err != nil || len(list) != 1 || list[0].Weight != 2 {
		t.Errorf("%+v %v", list, err)
	}
	if op, err := c.DeleteNamespace(ctx, "orders"); err != nil || op.ID != "op-1" {
		t.Errorf("%+v %v", op, err)
	}
	var got []string
	for _, r := range s.requests() {
		got = append(got, strings.TrimSpace(r.method+" "+r.uri+" "+r.body))
	}
	want := []string{`PUT /v1/namespaces/orders {"max_pending":1000,"weight":2}`, "GET /v1/namespaces/orders",
		"GET /v1/namespaces", "DELETE /v1/namespaces/orders"}
	if !slices.Equal(got, want) {
		t.Errorf("sent\n%s", strings.Join(got, "\n"))
	}
}
