package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// draws draws values, sensible or not.
type draws struct{ *rand.Rand }

// check runs a test with many draws.
func check(t *testing.T, test func(t *testing.T, d draws)) {
	t.Helper()
	for seed := range uint64(1000) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { test(t, draws{rand.New(rand.NewPCG(seed, 0))}) })
	}
}

func (d draws) yes() bool { return d.IntN(2) == 0 }

// number draws any number, often one at an end of a range.
func (d draws) number() int64 {
	ends := [...]int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt32, int64(time.Millisecond), int64(time.Hour)}
	if d.yes() {
		return ends[d.IntN(len(ends))]
	}
	return int64(d.Uint64()) >> d.IntN(64)
}

func (d draws) span() time.Duration { return time.Duration(d.number()) }

// text draws a text of at least that many pieces, characters that JSON escapes among them.
func (d draws) text(least int) string {
	pieces := [...]string{"a", "Z9", " ", "é", "订", "😀", `"`, `\`, "/", "<&>", "\x00", "\n", "\t", "\x1b", "\x7f", "\u2028", "\ufeff",
		"\ufffd", "\xff", "\xe2\x82"}
	var b strings.Builder
	for range least + d.IntN(6) {
		b.WriteString(pieces[d.IntN(len(pieces))])
	}
	return b.String()
}

func (d draws) texts() map[string]string {
	texts := make(map[string]string)
	for range d.IntN(5) {
		texts[d.text(0)] = d.text(0)
	}
	return texts
}

func (d draws) auth() *Auth {
	if d.yes() {
		return nil
	}
	a := &Auth{ClientCertificate: d.text(0)}
	if d.yes() {
		a.JWT = &JWT{Audience: d.text(0), Algorithm: d.text(0)}
	}
	return a
}

func (d draws) task() Task {
	task := Task{Queue: d.text(0), ContentType: d.text(0), PayloadBytes: []byte(d.text(0))}
	if d.yes() {
		task.FireAt = time.Unix(d.Int64N(1<<38)-1<<36, d.Int64N(1e9))
	}
	if d.yes() {
		task.Delay = d.span()
	}
	if d.yes() {
		task.Payload = json.RawMessage(values[d.IntN(len(values))])
	}
	if d.yes() {
		task.Target = &Target{URL: d.text(0), Method: d.text(0), Auth: d.auth(), Headers: d.texts(), Timeout: d.span()}
	}
	if d.yes() {
		task.Retry = &Retry{MaxAttempts: int(int32(d.number())), MinBackoff: d.span(), MaxBackoff: d.span()}
		for range d.IntN(4) {
			task.Retry.Delays = append(task.Retry.Delays, d.span())
		}
	}
	if d.yes() {
		task.Labels, task.ExpiresAfter, task.Jitter = d.texts(), d.span(), d.span()
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
	check(t, func(t *testing.T, d draws) {
		task := d.task()
		fields, err := appendTask(nil, &task)
		want, wantErr := json.Marshal(newWireTask(task))
		if task.Payload != nil { // encoding/json treats an empty one as none, and has no depth limit
			wantErr = cmp.Or(wantErr, contract.Valid(task.Payload))
		}
		assert.MustEqual(t, err != nil, wantErr != nil, "%v, want %v", err, wantErr)
		if err != nil {
			return
		}
		assert.NoError(t, same(contract.Close(fields, 0), want))
	})
}

// TestLineIsOneLine checks that a line has the payload byte for byte, and a line break only at its end.
func TestLineIsOneLine(t *testing.T) {
	c, _ := start(t, Config{})
	check(t, func(t *testing.T, d draws) {
		task := d.task()
		id, key := d.text(0), d.text(0)
		whole := !breaksLine(task.Payload)
		k := c.conn.newChunk()
		op := ScheduleOp(Task{}, WithKey(key), IfAbsent(), IfRevision(7))
		if d.yes() {
			op = TouchOp(id, Touch{Delay: task.Delay, NoLaterThan: task.FireAt, NoOlderThan: task.Jitter, OrSchedule: &task, Payload: task.Payload})
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
	assert.NoError(b, err)
	b.ReportAllocs()
	var data []byte
	for b.Loop() {
		data = c.conn.appendHead(data[:0], "schedule", benchmarkTask.ID, &options{})
		data, err = appendTask(data, &benchmarkTask)
		assert.NoError(b, err)
	}
	b.SetBytes(int64(len(data)))
}
