package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// echoBatch answers each line with the result of verdict; n is the line's number in its request, from 0.
func echoBatch(verdict func(n int, id string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		lines := bufio.NewScanner(r.Body)
		for n := 0; lines.Scan(); n++ {
			var op struct{ ID string }
			if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, verdict(n, op.ID)+"\n")
		}
	}
}

func created(_ int, id string) string { return fmt.Sprintf(`{"id":%q,"status":201,"revision":7}`, id) }

// rereadable lets a step read the body again that the script has read already.
func rereadable(s *script, step http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got := s.requests()
		r.Body = io.NopCloser(strings.NewReader(got[len(got)-1].body))
		step(w, r)
	}
}

// torn answers the first line, and breaks the connection.
func torn(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, created(0, "0")+"\n")
	_ = http.NewResponseController(w).Flush()
	hangUp(w, r)
}

// numbered yields the tasks t0, t1, …
func numbered(n int) iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for i := range n {
			if !yield(Task{ID: fmt.Sprint("t", i)}) {
				return
			}
		}
	}
}

func TestBatchLines(t *testing.T) {
	c, s := start(t, Config{}, answer(200, strings.Repeat(`{"id":"x","status":200}`+"\n", 7)))
	ops := []Op{
		ScheduleOp(Task{ID: "a", Payload: json.RawMessage("{\n\"x\": 1}")}, WithKey("k1"), IfAbsent()),
		ScheduleOp(Task{ID: "b", Payload: json.RawMessage(`{"x": 1}`)}, WithKey("k2"), IfRevision(9)),
		CancelOp("c", WithKey("k3")),
		FireOp("d", WithKey("k4")),
		TouchOp("e", Touch{}, WithKey("k5")),
		PatchOp("f", Patch{Payload: json.RawMessage("{\n\"x\": 1}"), Clear: []string{"retry"}}, WithKey("k6"), IfRevision(3)),
		PatchOp("g", Patch{}, WithKey("k7")),
	}
	for r := range c.Batch(t.Context(), slices.Values(ops)) {
		assert.Equal(t, r.Err, nil)
	}
	want := `{"op":"schedule","id":"a","key":"k1","if_none_match":"*","delay":"0s","payload":{"x":1}}
{"op":"schedule","id":"b","key":"k2","if_match":"9","delay":"0s","payload":{"x": 1}}
{"op":"cancel","id":"c","key":"k3"}
{"op":"fire","id":"d","key":"k4"}
{"op":"touch","id":"e","key":"k5"}
{"op":"patch","id":"f","key":"k6","if_match":"3","retry":null,"payload":{"x":1}}
{"op":"patch","id":"g","key":"k7"}
`
	if got := s.requests()[0]; got.body != want || got.header.Get("Content-Type") != ndjsonType {
		t.Errorf("sent\n%s\nwant\n%s", got.body, want)
	}
}

func TestBatchIsStreamedInOrder(t *testing.T) {
	c, s := start(t, Config{})
	s.exhaust = rereadable(s, echoBatch(created))
	const tasks = (maxFlying+2)*maxChunkLines + 500
	taken, got := 0, 0
	source := func(yield func(Task) bool) {
		for taken < tasks && yield(Task{ID: fmt.Sprint(taken)}) {
			taken++
		}
	}
	for r := range c.ScheduleMany(t.Context(), source) {
		if r.Err != nil || r.ID != fmt.Sprint(got) || r.Revision != 7 {
			t.Fatalf("result %d: %+v", got, r)
		}
		got++
		if taken > got+maxFlying*maxChunkLines {
			t.Fatalf("%d tasks taken after %d results", taken, got)
		}
	}
	assert.Equal(t, got, tasks, "results")
}

func TestBatchRepeatsOnlyWhatItMust(t *testing.T) {
	c, s := start(t, Config{})
	passing := `{"id":"%d","status":503,"problem":{"status":503,"committed":"no"}}`
	refused := `{"id":"2","status":400,"problem":{"status":400,"field":"delay","detail":"is negative"}}`
	s.steps = []http.HandlerFunc{
		rereadable(s, echoBatch(func(n int, id string) string {
			return []string{created(n, id), fmt.Sprintf(passing, n), refused, fmt.Sprintf(passing, n)}[n]
		})),
		rereadable(s, echoBatch(created)),
	}
	ops := []Op{CancelOp("0"), CancelOp("1"), CancelOp("2"), CancelOp("3")}
	results := slices.Collect(c.Batch(t.Context(), slices.Values(ops)))
	for i, r := range results {
		var refusal *Error
		if i == 2 && (!errors.As(r.Err, &refusal) || refusal.Field != "delay" || errors.Is(r.Err, ErrUnknown)) {
			t.Errorf("line 2: %v", r.Err)
		}
		if i != 2 && r.Err != nil {
			t.Errorf("line %d: %v", i, r.Err)
		}
	}
	first := strings.SplitAfter(s.requests()[0].body, "\n")
	if got, want := s.requests()[1].body, first[1]+first[3]; got != want {
		t.Errorf("repeated\n%swant\n%s", got, want)
	}
}

func TestTornBatchIsSentAgain(t *testing.T) {
	c, s := start(t, Config{})
	s.steps = []http.HandlerFunc{torn, rereadable(s, echoBatch(created))}
	results := slices.Collect(c.Batch(t.Context(), slices.Values([]Op{CancelOp("0"), CancelOp("1")})))
	if len(results) != 2 || results[0].Err != nil || results[1].Err != nil || len(s.requests()) != 2 {
		t.Errorf("%+v after %d requests", results, len(s.requests()))
	}
}

func TestBatchFailsLineByLine(t *testing.T) {
	c, s := start(t, Config{MaxAttempts: 1}, torn)
	ops := []Op{CancelOp("0"), CancelOp("1"), ScheduleOp(Task{ID: "2", Payload: json.RawMessage(`{`)})}
	results := slices.Collect(c.Batch(t.Context(), slices.Values(ops)))
	if results[0].Err != nil || !errors.Is(results[1].Err, ErrUnknown) {
		t.Errorf("%v, %v", results[0].Err, results[1].Err)
	}
	if err := results[2].Err; err == nil || errors.Is(err, ErrUnknown) || results[2].ID != "2" {
		t.Errorf("the operation that cannot be encoded: %+v", results[2])
	}
	if strings.Contains(s.requests()[0].body, `"2"`) {
		t.Error("it was sent")
	}
}

func TestAbandonedBatchTakesNoMore(t *testing.T) {
	for _, single := range []bool{false, true} {
		c, s := start(t, Config{SingleCalls: single})
		s.exhaust = rereadable(s, echoBatch(created))
		taken := 0
		for range c.ScheduleMany(t.Context(), func(yield func(Task) bool) {
			for yield(Task{ID: "a"}) {
				taken++
			}
		}) {
			break
		}
		if taken > maxFlying*maxChunkLines || single && len(s.requests()) != 1 {
			t.Errorf("%d tasks taken, %d requests", taken, len(s.requests()))
		}
	}
}
