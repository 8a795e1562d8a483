package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
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
	r.Owner(Owner{Shard: 1, First: 8, End: 12})
	old := r.Enter(Entry{Kind: OfKeys, ID: "k", Namespace: "other", Role: "read"})
	r.Ending(old, true)
	r.Ended(old)
	r.Ending(r.Enter(Entry{Kind: OfNamespaces, ID: "other"}), false)
	r.Try(Trial{Ask: AskOwn, Entry: old, Node: "node-1", Status: 401, Start: 7})
	r.List(Roll{Kind: OfTasks, Node: "node-1", Namespace: "other", Wrote: []int64{1}, Start: 8})
	r.Arrive(Arrival{At: r.Now(), ID: "s@1", WebhookID: "w1", Attempt: 1, Fence: 10, Due: 6, Wrote: 9, Answer: 200})
	r.CalledSchedule(ScheduleCall{
		Op: 9, Kind: PutSchedule, ID: "s", Every: time.Second, Overlap: OverlapAllow, Start: 9, Outcome: OK, Tries: 2,
	})
	r.Tally(Tally{ID: "s", Every: time.Second, Anchor: 5, Last: 3, Started: 2, Passed: 1, Found: []uint64{2}})
	r.Replica(Replica{Shard: 1, Node: "node-2", Applied: 12, Hash: "ab"})
}

func TestFileHoldsWhatMemoryHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	r, err := Create(path)
	assert.NoError(t, err)
	record(r)
	assert.NoError(t, r.Close())
	data, err := os.ReadFile(path)
	assert.NoError(t, err)
	got := read(t, data)
	if want := r.History(); !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nrecorded\n%+v", got, want)
	}
	if c := got.Calls[2]; c.Outcome != Open || c.End != 0 {
		t.Errorf("a call without an answer was read as %+v", c)
	}
	if cut := read(t, data[:len(data)-5]); len(cut.Replicas) != 0 || len(cut.Terms) != 1 {
		t.Errorf("a torn file was read as %+v", cut)
	}
}

// read reads a recorded file. It skips a last line that is cut off.
func read(t *testing.T, data []byte) *History {
	t.Helper()
	h := &History{}
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return h
		case err != nil:
			t.Fatal(err)
		}
		h.add(t, l)
	}
}

func (h *History) add(t *testing.T, l line) {
	t.Helper()
	switch {
	case l.Call != nil:
		if l.N != len(h.Calls) {
			t.Fatalf("call %d follows %d calls", l.N, len(h.Calls))
		}
		l.Call.Start = l.At
		h.Calls = append(h.Calls, *l.Call)
	case l.End != nil:
		c := &h.Calls[l.N]
		c.End, c.Outcome, c.Answer = l.At, l.End.Outcome, l.End.Answer
	case l.Arrival != nil:
		l.Arrival.At = l.At
		if l.Arrival.ID == "s@1" {
			h.Occurrences = append(h.Occurrences, *l.Arrival)
			break
		}
		h.Arrivals = append(h.Arrivals, *l.Arrival)
	case l.Fault != nil:
		l.Fault.Struck = l.At
		h.Faults = append(h.Faults, *l.Fault)
	case l.Entry != nil:
		l.Entry.Made = l.At
		h.Entries = append(h.Entries, *l.Entry)
	case l.Stage == "ending", l.Stage == "rotating":
		h.Entries[l.N].Ending, h.Entries[l.N].Rotated = l.At, l.Stage == "rotating"
	case l.Stage == "ended":
		h.Entries[l.N].Ended = l.At
	case l.Trial != nil:
		l.Trial.End = l.At
		h.Trials = append(h.Trials, *l.Trial)
	case l.Roll != nil:
		l.Roll.End = l.At
		h.Rolls = append(h.Rolls, *l.Roll)
	case l.Stage == "mending":
		h.Faults[l.N].Mending = l.At
	case l.Stage == "mended":
		h.Faults[l.N].Mended = l.At
	case l.Term != nil:
		l.Term.At = l.At
		h.Terms = append(h.Terms, *l.Term)
	case l.Owner != nil:
		l.Owner.At = l.At
		h.Owners = append(h.Owners, *l.Owner)
	case l.ScheduleCall != nil:
		l.ScheduleCall.End = l.At
		h.ScheduleCalls = append(h.ScheduleCalls, *l.ScheduleCall)
	case l.Tally != nil:
		l.Tally.At = l.At
		h.Tallies = append(h.Tallies, *l.Tally)
	case l.Replica != nil:
		l.Replica.At = l.At
		h.Replicas = append(h.Replicas, *l.Replica)
	default:
		t.Fatalf("%+v is no event", l)
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

// A part of a history has the calls and arrivals of its namespace, and all faults.
func TestNamespaces(t *testing.T) {
	h := &History{
		Calls:    []Call{{ID: "a"}, {ID: "a", Namespace: "other"}},
		Arrivals: []Arrival{{ID: "b", Namespace: "other"}}, Faults: []Fault{{Kind: "kill"}},
		Occurrences: []Arrival{{ID: "s@1"}}, ScheduleCalls: []ScheduleCall{{ID: "s"}}, Tallies: []Tally{{ID: "s"}},
	}
	assert.EqualSlices(t, h.Namespaces(), []string{"", "other"}, "namespaces")
	if in := h.In(""); len(in.Calls) != 1 || len(in.Arrivals) != 0 || len(in.Faults) != 1 ||
		len(in.Occurrences)+len(in.ScheduleCalls)+len(in.Tallies) != 3 {
		t.Errorf("%+v", in)
	}
	if in := h.In("other"); in.Namespace != "other" || len(in.Calls) != 1 || len(in.Arrivals) != 1 ||
		len(in.Occurrences)+len(in.ScheduleCalls)+len(in.Tallies) != 0 {
		t.Errorf("%+v", in)
	}
	assert.EqualSlices(t, new(History).Namespaces(), []string{""}, "without calls")
	if SlotIn("", "a") != SlotOf("a") || SlotIn("default", "a") != SlotOf("a") || SlotIn("other", "a") == SlotOf("a") {
		t.Error("the slot of a task depends on its namespace, and the default one has a name")
	}
}

// An occurrence is on the shard of its schedule.
func TestSlotOfAnOccurrence(t *testing.T) {
	for _, id := range []string{"report@", "report@1", "report@77"} {
		assert.Equal(t, SlotIn("orders", id), SlotIn("orders", "report"), "%s has another slot than report", id)
	}
	if SlotOf("a@1") == SlotOf("b@1") {
		t.Error("the part before the @ does not count")
	}
}
