package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// record records a few events of every kind.
func record(r *Recorder) {
	a := r.Begin(Call{Op: r.NextOp(), Kind: Schedule, ID: "t", Node: "node-1", Ask: Ask{Delay: time.Second, Body: 7}})
	b := r.Begin(Call{Op: r.NextOp(), Kind: Get, ID: "t", Node: "node-2", Final: true})
	r.End(b, OK, Answer{Status: 200, Revision: 3, State: "scheduled", Wrote: 1})
	r.End(a, Unknown, Answer{Error: "no answer"})
	r.Begin(Call{Op: r.NextOp(), Kind: Cancel, ID: "t", Node: "node-1"})
	ops := r.NextOps(2)
	both := r.Begin(Call{Op: ops, Kind: Ack, ID: "u", Batch: true}, Call{Op: ops + 1, Kind: Nack, ID: "v", Batch: true})
	r.EndAll(both, []Ending{{Outcome: OK}, {Outcome: Failed, Answer: Answer{Status: 409}}})
	f := r.Strike(Fault{Kind: "kill", Nodes: []string{"node-1"}, Shards: []uint32{1, 2}})
	r.Mending(f)
	r.Arrive(Arrival{At: r.Now(), ID: "t", WebhookID: "w", Attempt: 1, Fence: 9, Due: 5, Wrote: 1, Answer: 200})
	r.Mended(f)
	r.Term(Term{Shard: 1, Term: 4, Leader: "node-2", Before: r.Now()})
	r.Replica(Replica{Shard: 1, Node: "node-2", Applied: 12, Hash: "ab"})
}

func TestFileHoldsWhatMemoryHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	r, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	record(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if want := r.History(); !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nrecorded\n%+v", got, want)
	}
	if c := got.Calls[2]; c.Outcome != Open || c.End != 0 {
		t.Errorf("a call without an answer was read as %+v", c)
	}
	cut, err := Read(bytes.NewReader(data[:len(data)-5]))
	if err != nil || len(cut.Replicas) != 0 || len(cut.Terms) != 1 {
		t.Errorf("a torn file was read as %+v, %v", cut, err)
	}
}

func TestReadRefusesNonsense(t *testing.T) {
	for _, text := range []string{
		`{"at":1}`, `{"at":1,"n":1,"call":{"op":1}}`, `{"at":1,"n":0,"end":{"outcome":"ok"}}`,
		`{"at":1,"n":0,"stage":"mended"}`, `{"at":1,"n":0,"fault":{"kind":"k"}}{"at":2,"n":0,"stage":"what"}`, `nonsense`,
	} {
		if h, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read as %+v", text, h)
		}
	}
}

type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestFailedWriteIsTold(t *testing.T) {
	r := NewRecorder(brokenDisk{})
	record(r)
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("closed with %v", err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	r := NewRecorder(&b)
	record(r)
	if err := r.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	for _, file := range []string{"-1\n", "{}\n", `{"n":1,"call":{}}`, `{"call":{}} {"n":7,"end":{}}`} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := Read(bytes.NewReader(data)); (h == nil) == (err == nil) {
			t.Errorf("%v and %v", h, err)
		}
	})
}
