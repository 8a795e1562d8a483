package client

import (
	"encoding/json"
	"errors"
	"testing"
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

// FuzzReadResult holds what is scanned by hand against encoding/json.
func FuzzReadResult(f *testing.F) {
	for _, line := range resultLines {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, refusal, err := readResult(line, "a")
		var want struct {
			Status   int      `json:"status"`
			Revision uint64   `json:"revision"`
			Outcome  Outcome  `json:"outcome"`
			Previous State    `json:"previous"`
			Problem  *problem `json:"problem"`
		}
		wantErr := json.Unmarshal(line, &want)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, want %v", line, err, wantErr)
		}
		if err != nil {
			return
		}
		if got.ID != "a" || got.Status != want.Status || got.Revision != want.Revision || got.Outcome != want.Outcome ||
			got.Previous != want.Previous {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
		var e *Error
		if good := want.Problem == nil && want.Status >= 200 && want.Status < 300; good != (refusal == nil) ||
			refusal != nil && !(errors.As(refusal, &e) && e.Status == want.Status) {
			t.Errorf("%q: refused with %v", line, refusal)
		}
	})
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
