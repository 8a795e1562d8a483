package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/contract"
)

// drawTask draws a task with any values, sensible or not.
func drawTask(t *rapid.T) Task {
	maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
	span := func(name string) time.Duration { return time.Duration(rapid.Int64().Draw(t, name)) }
	texts := func(name string) map[string]string {
		return rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, name)
	}
	task := Task{
		Queue: rapid.String().Draw(t, "queue"), ContentType: rapid.String().Draw(t, "content type"),
		PayloadBytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"),
	}
	if maybe("at") {
		task.FireAt = time.Unix(rapid.Int64Range(-1<<36, 1<<37).Draw(t, "seconds"), rapid.Int64Range(0, 999999999).Draw(t, "nanos"))
	}
	if maybe("delayed") {
		task.Delay = span("delay")
	}
	if maybe("JSON") {
		task.Payload = json.RawMessage(rapid.SampledFrom(values).Draw(t, "payload"))
	}
	if maybe("target") {
		task.Target = &Target{URL: rapid.String().Draw(t, "url"), Headers: texts("headers"), Timeout: span("timeout")}
	}
	if maybe("retry") {
		task.Retry = &Retry{MaxAttempts: rapid.IntRange(-1, math.MaxInt32).Draw(t, "attempts"), MinBackoff: span("min"),
			MaxBackoff: span("max")}
		for range rapid.IntRange(0, 3).Draw(t, "delays") {
			task.Retry.Delays = append(task.Retry.Delays, span("delay"))
		}
	}
	if maybe("more") {
		task.Labels, task.ExpiresAfter, task.Jitter = texts("labels"), span("expires"), span("jitter")
	}
	return task
}

// same compares two JSON texts by meaning.
func same(a, b []byte) error {
	var left, right any
	if err := json.Unmarshal(a, &left); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	if err := json.Unmarshal(b, &right); err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	if !reflect.DeepEqual(left, right) {
		return fmt.Errorf("differ:\n%s\n%s", a, b)
	}
	return nil
}

// TestTaskIsEncodedAsByTheBook checks that appendTask writes the same meaning as encoding/json.
func TestTaskIsEncodedAsByTheBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := drawTask(t)
		fields, err := appendTask(nil, &task)
		want, wantErr := json.Marshal(newWireTask(task))
		if task.Payload != nil { // encoding/json treats an empty one as none, and has no depth limit
			wantErr = cmp.Or(wantErr, contract.Valid(task.Payload))
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if err := same(contract.Close(fields, 0), want); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLineIsOneLine checks that a line has the payload byte for byte, and a line break only at its end.
func TestLineIsOneLine(t *testing.T) {
	c, _ := start(t, Config{})
	rapid.Check(t, func(t *rapid.T) {
		task := drawTask(t)
		id, key := rapid.String().Draw(t, "id"), rapid.String().Draw(t, "key")
		whole := !breaksLine(task.Payload)
		k := c.newChunk()
		op := ScheduleOp(Task{}, WithKey(key), IfAbsent(), IfRevision(7))
		if rapid.Bool().Draw(t, "touch") {
			op = TouchOp(id, Touch{Delay: task.Delay, NoLaterThan: task.FireAt, NoOlderThan: task.Jitter, OrSchedule: &task})
		} else {
			op = ScheduleOp(task, WithKey(key), IfAbsent(), IfRevision(7))
		}
		op.id = id
		k.addOp(&op)
		lines := k.sendable()
		if len(lines) == 0 {
			return
		}
		data := lines[0].data
		if !json.Valid(data) || strings.Count(string(data), "\n") != 1 || data[len(data)-1] != '\n' {
			t.Fatalf("%q", data)
		}
		if whole && !strings.Contains(string(data), string(task.Payload)) {
			t.Fatalf("%q is not in %q", task.Payload, data)
		}
	})
}

var benchmarkTask = Task{
	ID: "order-1042-close-0000001", FireAt: time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.UTC),
	Payload: json.RawMessage(orderPayload),
}

func BenchmarkEncodeLine(b *testing.B) {
	c, err := New(Config{Addrs: []string{"a:1"}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var data []byte
	for b.Loop() {
		data = c.appendHead(data[:0], "schedule", benchmarkTask.ID, &options{})
		if data, err = appendTask(data, &benchmarkTask); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(data)))
}
