package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"testing"

	"github.com/belfryhq/belfry/internal/contract"
)

var resultLines = []string{
	`{"id":"a","status":201,"revision":7}`, `{"id":"a","status":200,"revision":8,"previous":"retrying"}` + "\n",
	`{"id":"a","status":200,"revision":18446744073709551615,"outcome":"already_fired"}`, `{"id":"a","status":200}`,
	`{"id":"a","status":503}`, `{"id":"a","status":404,"problem":{"type":"x","status":404,"detail":"no \"}\""}}`,
	`{"id":"a","status":200,"outcome":"new"}`, `{"id":"a","status":200,"extra":"x","more":12}`, `{"id":"b","status":200}`,
	`{"id":"a","status":200,"extra":{"status":7}}`, `{"id":"a","status":200,"extra":"\u0022","revision":3}`,
	`{"id":"a", "status":200}`, `{"status":200,"id":"a"}`, `{"id":"a","status":200} `, `{"id":"a","status":200}x`,
	`{"id":"a","status":200,}`, `{"id":"a","status":200`, `{"id":"a","status":2x}`, `{"id":"a","status":-1}`, `{"id":"a"}`, ``,
	`{"id":"a","status":200,"revision":1.5}`, `{"id":"a","status":20000000000000000000}`, `{"id":"a","status":0200}`, `null`,
	`{"id":"a","status":200,"revision":7,"revision":8}`, `{"id":"","status":400,"problem":{"status":400}}`,
	`{"id":"a","status":200,"x":"` + "\x01" + `"}`,
}

// FuzzReadResult compares readResult with encoding/json, which checks neither UTF-8 nor depth.
func FuzzReadResult(f *testing.F) {
	for _, line := range resultLines {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, refusal, err := readResult(line, "a")
		want, problem, wantErr := resultByTheBook(line)
		if contract.Valid(line) == nil && !bytes.Contains(line, []byte(`\u`)) && (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, want %v", line, err, wantErr)
		}
		if err != nil {
			return
		}
		if wantErr != nil || got != want {
			t.Fatalf("%q: %+v, want %+v, %v", line, got, want, wantErr)
		}
		var e *Error
		if good := !problem && want.Status >= 200 && want.Status < 300; good != (refusal == nil) ||
			refusal != nil && !(errors.As(refusal, &e) && e.Status == want.Status) {
			t.Errorf("%q: refused with %v", line, refusal)
		}
	})
}

// resultByTheBook is readResult by encoding/json, for lines with names as in the contract.
func resultByTheBook(line []byte) (r Result, refused bool, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		return r, false, errors.New("not an object")
	}
	r.ID = "a"
	var problem *struct {
		Type, Title, Detail, Field, Committed, State string
		Status, Attempts                             uint
		RetryAfter                                   uint32 `json:"retry_after"`
	}
	var status int
	for name, out := range map[string]any{"status": &status, "revision": &r.Revision, "outcome": &r.Outcome,
		"previous": &r.Previous, "problem": &problem} {
		if text, ok := members[name]; ok {
			err = cmp.Or(err, json.Unmarshal(text, out))
		}
	}
	r.Status = status
	return r, problem != nil, err
}

func BenchmarkReadResult(b *testing.B) {
	line := []byte(`{"id":"order-1042-close-0000001","status":201,"revision":123456}` + "\n")
	b.ReportAllocs()
	for b.Loop() {
		if r, refusal, err := readResult(line, "order-1042-close-0000001"); err != nil || refusal != nil || r.Status != 201 {
			b.Fatal(r, refusal, err)
		}
	}
}
