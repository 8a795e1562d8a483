package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// internals lists words of Go's own packages, which mean nothing to a caller in another language.
var internals = []string{
	"strconv", "parsing", "parse \\\"", "invalid syntax", "unexpected EOF", "0x", "*http", "*url", "json:", "unmarshal",
	"illegal base64", "out of range:", "goroutine", "runtime error", "context deadline", "context canceled", "rpc error",
	"net/url", "net/http", "invalid URL escape", "missing ']'", "bytes.", "time: unknown", "time: invalid", "%!", "<nil>", "nil pointer", "\\x", "\\u", "reflect", "interface {}", "fsmpb", "CODE_",
}

func mustBePlain(t *testing.T, call, answer string) {
	t.Helper()
	for _, word := range internals {
		if strings.Contains(answer, word) {
			t.Errorf("%.200s: the answer has %q: %s", call, word, answer)
		}
	}
	if !utf8.ValidString(answer) || strings.ContainsRune(answer, utf8.RuneError) {
		t.Errorf("%.200s: the answer has half a character: %q", call, answer)
	}
}

// TestErrorsArePlain checks for many faults of callers that the answer contains no internals.
func TestErrorsArePlain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/s", wholeSchedule).mustStatus(t, 201)
	long := strings.Repeat("定时", 80)
	values := []string{
		`""`, `"x"`, `"1.5.5s"`, `"9999999999999999999s"`, `"P1Y"`, `"PT"`, `"定时"`, `"` + long + `"`, `"a` + long + `"`, `"ab` + long + `"`,
		`null`, `true`, `7`, `-1`, `1e999`, `99999999999999999999999`, `1.5`, `[]`, `{}`, `[7]`, `{"定":"时"}`, `{"url":"http://[::1"}`,
		`{"url":"http://x/%zz"}`, `{"url":"http://x y/"}`, `{"url":"http://x:99999/"}`, `{"url":"://"}`, `{"url":"http://定 时/"}`,
		`{"url":"nats://x/a?b=%zz"}`, `{"url":"redis://x/q?maxlen=ten"}`, `{"url":"http://x","headers":{"定":"1"}}`, `{"secrets":["whsec_!!"]}`,
		`{"delays":["x"]}`, `{"max_attempts":"ten"}`, `{"` + long + `":1}`, `"2026-13-45T99:00:00Z"`, `"` + "\xff" + `"`, `"\ud800"`, `tru`, `"`, `{"a":`,
	}
	names := []string{"id", "queue", "fire_at", "delay", "jitter", "payload", "payload_base64", "content_type", "target", "retry",
		"expires_after", "labels", "no_later_than", "or_schedule", "paused", "max_in_flight", "max_per_second", "batch_max", "keep_done",
		"signing", "max", "wait", "lease", "ack", "nack", "extend", "release", "repeat", "misfire", "misfire_window", "overlap",
		"note", "task", "from", "to", "定时", long}
	for _, name := range names {
		for _, value := range values {
			body := fmt.Sprintf(`{%q:%s}`, name, value)
			for _, call := range []string{"PUT /v1/tasks/a", "PATCH /v1/tasks/a", "POST /v1/tasks/a/touch", "PUT /v1/queues/q",
				"PATCH /v1/queues/q", "POST /v1/queues/q/lease", "POST /v1/queues/q/settle", "PUT /v1/schedules/a",
				"PATCH /v1/schedules/s", "POST /v1/schedules/s/pause", "POST /v1/schedules/s/backfill"} {
				method, path, _ := strings.Cut(call, " ")
				mustBePlain(t, call+" "+body, h.call(method, path, body).text)
			}
			line := fmt.Sprintf(`{"op":"schedule","id":"a","key":"k",%q:%s}`, name, value)
			mustBePlain(t, line, h.call("POST", "/v1/batch", line, "Content-Type", ndjsonType).text)
		}
	}
	for _, path := range []string{
		"/v1/tasks/%E5%AE%9A%E6%97%B6", "/v1/tasks/a%FFb", "/v1/tasks?limit=ten", "/v1/tasks?limit=%E5%AE%9A",
		"/v1/tasks?cursor=%E5%AE%9A", "/v1/tasks?label=%E5%AE%9A", "/v1/tasks?due_before=soon", "/v1/tasks?state=%E5%AE%9A",
		"/v1/tasks?%zz", "/v1/tasks?a;b", "/v1/tasks?%E5%AE%9A=1", "/v1/queues/%E5%AE%9A", "/" + strings.Repeat("%E5%AE%9A", 60),
		"/v1/queues/q/dead?limit=x",
	} {
		mustBePlain(t, path, h.call("GET", path, "").text)
	}
	for _, header := range [][2]string{{"If-Match", "定"}, {"If-None-Match", "定"}, {keyHeader, ""}, {"Content-Type", "定"},
		{"Content-Type", "text/;"}, {"Content-Encoding", "gzip"}} {
		mustBePlain(t, header[0], h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`, header[0], header[1]).text)
	}
}

// TestFailuresArePlain checks that internal failures are worded without internals, too.
func TestFailuresArePlain(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("%w: %w", task.ErrNotProposed, context.DeadlineExceeded), fmt.Errorf("%w: %w", task.ErrUnknown, context.Canceled),
		context.DeadlineExceeded, fmt.Errorf("%w: node b: rpc error: code = Unavailable desc = %w", task.ErrNotProposed, io.ErrUnexpectedEOF),
		errors.New("runtime error: 0x7f"),
	} {
		mustBePlain(t, err.Error(), problemOf(err).Error())
		mustBePlain(t, err.Error(), readProblem(err).Error())
	}
}

// TestClipKeepsCharactersWhole checks that a long quotation ends between two characters.
func TestClipKeepsCharactersWhole(t *testing.T) {
	for n := range 4 {
		text := strings.Repeat("a", n) + strings.Repeat("定", 60)
		if got := contract.Clip(text); !utf8.ValidString(got) || len(got) < 120 || !strings.HasSuffix(got, "…") {
			t.Errorf("%q", got)
		}
	}
	if got := contract.Clip(strings.Repeat("\x80", 200)); len(got) > 140 {
		t.Errorf("%d bytes", len(got))
	}
}
