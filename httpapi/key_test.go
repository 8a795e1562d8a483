package httpapi

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

func testParser() *parser {
	s, err := New(Config{Backend: newFake()})
	if err != nil {
		panic(err)
	}
	return &parser{now: arrival{testNow, true}, receivers: s.receivers, calendars: s.calendars}
}

func lineHash(t *testing.T, text string) uint64 {
	t.Helper()
	l := testParser().batchLine([]byte(text))
	if l.refused != nil {
		t.Fatalf("%s: %v", text, l.refused)
	}
	return l.cmd.Key.Call
}

// TestCallHashNeverChanges checks the hash of one call. The hash is a part of the data format: a change would
// invalidate every remembered key.
func TestCallHashNeverChanges(t *testing.T) {
	const line = `{"op":"schedule","id":"a","key":"k","delay":"1h","queue":"q","payload":{"n":1},"labels":{"l":"v"},
		"target":{"url":"http://x/","headers":{"h":"v"},"timeout":"5s"},"retry":{"max_attempts":3},"expires_after":"1m"}`
	assert.Equal(t, lineHash(t, line), 0x342d78953e7cdb58)
	assert.Equal(t, keyHash("k"), 0xc3d31922c50b1b63)
}

func TestCallHashKnowsWhatDiffers(t *testing.T) {
	seen := map[uint64]string{}
	for _, text := range []string{
		`{"op":"schedule","id":"a","key":"k","delay":"1h"}`,
		`{"op":"schedule","id":"b","key":"k","delay":"1h"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"2h"}`,
		`{"op":"schedule","id":"a","key":"k","fire_at":"2026-11-21T11:00:00.001Z"}`, // the instant of the first
		`{"op":"schedule","id":"a","key":"k","delay":"1h","if_none_match":"*"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","if_match":"*"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","if_match":1}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","queue":"q"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","payload":"q"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","payload": "q" ,"content_type":"q/q"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","payload_base64":"InEi"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","payload_base64":""}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","target":{"url":"http://x"}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","target":{"url":"http://x","headers":{"a":"b"}}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","target":{"url":"http://x","headers":{"ab":""}}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","target":{"url":"http://x","timeout":"1s"}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","retry":{"min_backoff":"1s"}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","retry":{"max_backoff":"1s"}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","retry":{"delays":["1s"]}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","retry":{"delays":["1s","1s"]}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","retry":{"delays":["2s"]}}`,
		`{"op":"patch","id":"a","key":"k","retry":{}}`,
		`{"op":"patch","id":"a","key":"k","retry":null}`,
		`{"op":"patch","id":"a","key":"k","retry":{"delays":null}}`,
		`{"op":"patch","id":"a","key":"k","retry":{"delays":["1s"]}}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","expires_after":"1s"}`,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","labels":{"a":"b"}}`,
		`{"op":"cancel","id":"a","key":"k"}`,
		`{"op":"fire","id":"a","key":"k"}`,
		`{"op":"touch","id":"a","key":"k"}`,
		`{"op":"touch","id":"a","key":"k","delay":"1h"}`,
		`{"op":"touch","id":"a","key":"k","no_later_than":"1h"}`,
		`{"op":"touch","id":"a","key":"k","no_later_than":"2026-11-21T11:00:00Z"}`,
		`{"op":"touch","id":"a","key":"k","or_schedule":{"delay":"1h"}}`,
	} {
		h := lineHash(t, text)
		assert.Equal(t, seen[h], "", "%s hashes like", text)
		seen[h] = text
	}
}

const aimed = `"target":{"url":"http://x","headers":{"a":"1","b":"2"}}`

func TestCallHashForgivesWhatDoesNotMatter(t *testing.T) {
	base := lineHash(t,
		`{"op":"schedule","id":"a","key":"k","delay":"1h","payload":1,`+aimed+`}`)
	for _, text := range []string{
		` {"key" : "k", "payload":1 ,"id":"a","delay":"60m","op":"schedule",
			"target":{"headers":{"B":"2","A":"1"},"url":"http://x"} } `,
		`{"op":"schedule","id":"\u0061","key":"k","delay":"1h","payload":1,"queue":"default",
			"content_type":"application/json",
			"retry":{},"labels":{},"target":{"url":"http://x","headers":{"a":"1","b":"2"}}}`,
	} {
		assert.Equal(t, lineHash(t, text), base, "%s differs", text)
	}
	later := testParser()
	later.now.at = testNow.Add(1e9)
	later.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	l := later.batchLine([]byte(`{"op":"schedule","id":"a","key":"k","delay":"1h","payload":1,` + aimed + `}`))
	assert.Equal(t, l.cmd.Key.Call, base, "the time of receipt or the trace is in the hash")
}

// TestLinesHashLikeSingleCalls checks that a batch line and the single call with the same meaning count as one call.
func TestLinesHashLikeSingleCalls(t *testing.T) {
	for _, c := range []struct{ method, path, body, line string }{
		{"PUT", "/v1/tasks/a", `{"delay":"1h","payload":[1]}`,
			`{"op":"schedule","id":"a","key":"k","delay":"1h","payload":[1]}`},
		{"DELETE", "/v1/tasks/a", ``, `{"op":"cancel","id":"a","key":"k"}`},
		{"POST", "/v1/tasks/a/fire", ``, `{"op":"fire","id":"a","key":"k"}`},
		{"POST", "/v1/tasks/a/touch", `{"delay":"1h"}`, `{"op":"touch","id":"a","key":"k","delay":"1h"}`},
	} {
		h := newHarness(t)
		h.fake.do = nil
		h.call(c.method, c.path, c.body, keyHeader, "k")
		if key := h.fake.last().Key; key.Call != lineHash(t, c.line) || key.Hash != keyHash("k") {
			t.Errorf("%s %s differs from %s", c.method, c.path, c.line)
		}
	}
}

func TestPatchHashKnowsWhatDiffers(t *testing.T) {
	seen := map[uint64]string{}
	for _, text := range []string{`{}`, `{"delay":"1h"}`, `{"fire_at":"2026-11-21T11:00:00.001Z"}`, `{"payload":1}`,
		`{"payload":null}`,
		`{"payload_base64":"MQ=="}`, `{"content_type":null}`, `{"content_type":"a/b"}`, `{"target":null}`, `{"target":{}}`,
		`{"target":{"url":"http://x"}}`, `{"target":{"timeout":null}}`, `{"target":{"timeout":"1s"}}`,
		`{"target":{"headers":null}}`,
		`{"target":{"headers":{"a":null}}}`, `{"target":{"headers":{"a":""}}}`, `{"retry":null}`, `{"retry":{}}`,
		`{"retry":{"max_attempts":null}}`, `{"retry":{"max_attempts":1}}`, `{"retry":{"min_backoff":null}}`,
		`{"retry":{"max_backoff":null}}`, `{"labels":null}`, `{"labels":{"a":null}}`, `{"labels":{"a":""}}`} {
		d, err := testParser().patch([]byte(text), &contract.PatchObject)
		assert.NoError(t, err, "%s", text)
		d.command.msg.Id = "a"
		h := callHash(&d.command.msg, 0)
		assert.Equal(t, seen[h], "", "%s hashes like", text)
		seen[h] = text
	}
}

// TestClientsComputeTheSameSlot checks the slots of clients, which have a hash of their own, against the service's, for
// ids of every length.
func TestClientsComputeTheSameSlot(t *testing.T) {
	if contract.SlotCount != task.Slots {
		t.Errorf("clients have %d slots, the service has %d", contract.SlotCount, task.Slots)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		for _, namespace := range []string{"", "default", "orders", strings.Repeat("n", 63)} {
			got, want := contract.SlotOf(namespace, string(b)), int(task.Slot(namespace, string(b)))
			assert.MustEqual(t, got, want, "%s %q: slot", namespace, b)
		}
	}
}

// TestOccurrencesShareASlot checks that the occurrences of a schedule are where the schedule is, for clients, too.
func TestOccurrencesShareASlot(t *testing.T) {
	want := task.Slot("orders", "report")
	for _, id := range []string{"report", "report@", "report@1", "report@18446744073709551615"} {
		if got := task.Slot("orders", id); got != want || contract.SlotOf("orders", id) != int(want) {
			t.Errorf("%s: slot %d, for clients %d, want %d", id, got, contract.SlotOf("orders", id), want)
		}
	}
	if contract.SlotOf("", "a@1") == contract.SlotOf("", "b@1") {
		t.Error("the part before the @ does not count")
	}
}
