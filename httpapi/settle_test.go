package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

type settleResult struct {
	Receipt, ID string
	Status      int
	Outcome     string
	Problem     map[string]any
}

func (h *harness) settle(body string) []settleResult {
	h.t.Helper()
	return h.call("POST", "/v1/queues/q/settle", body).results(h.t)
}

func (a answer) results(t testing.TB) []settleResult {
	t.Helper()
	var v struct{ Results []settleResult }
	if err := json.Unmarshal([]byte(a.text), &v); err != nil || a.StatusCode != 200 {
		t.Fatalf("%d %s: %v", a.StatusCode, a.text, err)
	}
	return v.Results
}

func TestSettle(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a", "b", "c", "d", "e")
	r := map[string]string{}
	for _, task := range h.lease(`{"max":10}`) {
		r[task.ID] = task.Receipt
	}
	body := fmt.Sprintf(`{"release":[%q],"extend":[{"receipt":%q,"lease":"1h"}],
		"nack":[{"receipt":%q},{"receipt":%q,"delay":"5s","reason":"no stock"}],"ack":[%q,"torn"]}`,
		r["e"], r["d"], r["b"], r["c"], r["a"])
	results := h.settle(body)
	var order []string
	for _, one := range results {
		order = append(order, fmt.Sprint(one.ID, one.Status))
	}
	assert.MustEqual(t, strings.Join(order, " "), "a200 404 b200 c200 d200 e200", "answered")
	if results[1].Receipt != "torn" || results[1].Problem["field"] != "receipt" {
		t.Errorf("%+v", results[1])
	}
	var sent []string
	for _, c := range h.fake.seen[len(h.fake.seen)-5:] {
		s := c.GetSettle()
		sent = append(sent, fmt.Sprint(c.Id, s.GetVerdict(), s.GetError(), s.GetDelayMs(), s.GetConsumer(),
			c.GetExtend().GetLeaseMs()))
	}
	want := "aVERDICT_DELIVERED0 true0,bVERDICT_RETRYthe consumer gave no reason0 true0,cVERDICT_RETRYno stock5000 true0,d" +
		"VERDICT_UNSPECIFIED0 false3600000,eVERDICT_RELEASED0 true0"
	got := strings.Join(sent, ",")
	assert.Equal(t, strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(want, " ", ""), "sent %s", got)
	if b := h.fake.seen[len(h.fake.seen)-4].GetSettle(); b.DelayMs != nil {
		t.Error("a nack without a delay has one")
	}
	again := h.settle(`{"ack":["` + r["a"] + `"]}`)
	assert.Equal(t, again[0].Status, 200, "the same ack again: %+v", again)
	if late := h.settle(`{"ack":["` + r["e"] + `"],"nack":[{"receipt":"` + r["b"] + `"}]}`); late[0].Status != 409 ||
		late[1].Status != 409 || late[0].Problem["type"] != contract.ProblemPrefix+"lease-ended" {
		t.Errorf("after the lease: %+v", late)
	}
}

// TestSettleOfAReplacedTask checks that an ack, nack or release of a task that was scheduled anew settles nothing and
// reports that, and that an extend is refused.
func TestSettleOfAReplacedTask(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	r := h.lease("")[0].Receipt
	h.fake.tasks["a"].Occurrence++
	h.fake.tasks["a"].Leased = false
	before := proto.CloneOf(h.fake.tasks["a"])
	got := h.settle(fmt.Sprintf(`{"ack":[%q,{"receipt":%q}],"nack":[{"receipt":%q}],"extend":[{"receipt":%q,"lease":"1h"}],
		"release":[%q]}`, r, r, r, r, r))
	for i, one := range got {
		want := settleResult{Receipt: r, ID: "a", Status: 200, Outcome: "replaced"}
		if i == 3 {
			want.Status, want.Outcome = 409, ""
		}
		if one.Receipt != want.Receipt || one.ID != want.ID || one.Status != want.Status || one.Outcome != want.Outcome ||
			(one.Problem != nil) != (i == 3) {
			t.Errorf("%d: %+v, want %+v", i, one, want)
		}
	}
	if detail, _ := got[3].Problem["detail"].(string); !strings.Contains(detail, "scheduled anew") {
		t.Errorf("the extend is refused with %v", got[3].Problem)
	}
	if !proto.Equal(before, h.fake.tasks["a"]) {
		t.Errorf("%v became %v", before, h.fake.tasks["a"])
	}
}

// TestReceiptsInObjects checks that receipts of acks and releases may be strings, or objects like those of nacks.
func TestReceiptsInObjects(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a", "b", "c", "d")
	var r []any
	for _, task := range h.lease(`{"max":10}`) {
		r = append(r, task.Receipt)
	}
	got := h.settle(fmt.Sprintf(`{"ack":[{"receipt":%q},%q],"release":[%q,{"receipt":%q}]}`, r...))
	for i, one := range got {
		if one.Status != 200 || one.Receipt != r[i] || one.Outcome != "" {
			t.Errorf("%d: %+v", i, one)
		}
	}
	for body, field := range map[string]string{
		`{"ack":[{}]}`: "ack[0].receipt", `{"release":["x",{}]}`: "release[1].receipt", `{"ack":[7]}`: "ack[0]",
		`{"ack":[{"receipt":7}]}`: "ack[0].receipt", `{"ack":[{"receipt":"x","reason":"y"}]}`: "ack[0].reason",
		`{"release":[{"receipt":"x","receipt":"y"}]}`: "release[0].receipt", `{"ack":{"receipt":"x"}}`: "ack",
	} {
		h.call("POST", "/v1/queues/q/settle", body).mustProblem(t, 400, field)
	}
}

func TestSettleTwiceInOneCall(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	r := h.lease("")[0].Receipt
	got := h.settle(fmt.Sprintf(`{"ack":[%q,%q],"release":[%q]}`, r, r, r))
	if got[0].Status != 200 || got[1].Status != 200 || got[2].Status != 409 {
		t.Errorf("%+v", got)
	}
}

func TestReceiptsAreOfTheirQueue(t *testing.T) {
	h := newHarness(t)
	h.ready("other", "a")
	r := h.call("POST", "/v1/queues/other/lease", "").leased(t)[0].Receipt
	foreign := string(testKey.append(nil, receipt{namespace: "theirs", queue: "q", id: "a", fence: 1}))
	gone := string(testKey.append(nil, receipt{namespace: "default", queue: "q", id: "gone", fence: 1}))
	got := h.settle(fmt.Sprintf(`{"ack":[%q,%q,%q,""]}`, r, foreign, gone))
	for i, want := range []int{404, 404, 404, 404} {
		if got[i].Status != want || got[i].Problem["status"] != float64(want) {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	if got[0].Problem["field"] != "receipt" || !strings.Contains(got[0].Problem["detail"].(string), `"other"`) {
		t.Errorf("%+v", got[0])
	}
}

// TestBadSettlements checks that a faulty value is a problem of its own receipt only, and that the others are settled.
func TestBadSettlements(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a", "b")
	tasks := h.lease(`{"max":2}`)
	a, b := tasks[0].Receipt, tasks[1].Receipt
	for _, c := range []struct{ list, entry, field, limit string }{
		{"nack", `"delay":"-1s"`, "delay", spanLimit},
		{"nack", `"delay":"36500d1ns"`, "delay", spanLimit},
		{"nack", `"delay":"soon"`, "delay", ""},
		{"nack", `"reason":"` + strings.Repeat("x", 513) + `"`, "reason", "512 bytes"},
		{"extend", `"lease":"99ms"`, "lease", "100ms to 12h"},
		{"extend", `"lease":"13h"`, "lease", "100ms to 12h"},
		{"extend", ``, "lease", "100ms to 12h"},
	} {
		entry := strings.TrimSuffix(fmt.Sprintf(`{"receipt":%q,%s`, a, c.entry), ",") + "}"
		body := fmt.Sprintf(`{"nack":[%s],"extend":[{"receipt":%q,"lease":"1m"}]}`, entry, b)
		if c.list == "extend" {
			body = fmt.Sprintf(`{"extend":[%s,{"receipt":%q,"lease":"1m"}]}`, entry, b)
		}
		got := h.settle(body)
		limit, _ := got[0].Problem["limit"].(string)
		if got[0].Status != 400 || got[0].Problem["field"] != c.field || limit != c.limit || got[1].Status != 200 {
			t.Errorf("%s: %+v", entry, got)
		}
	}
}

func TestBadSettleBodies(t *testing.T) {
	h := newHarness(t)
	many := strings.Repeat(`"x",`, maxReceipts/2)
	for _, c := range []struct{ body, field string }{
		{`{"acks":[]}`, "acks"},
		{`{"ack":"x"}`, "ack"},
		{`{"ack":[7]}`, "ack[0]"},
		{`{"ack":["x",null]}`, "ack[1]"},
		{`{"ack":["x"],"ack":["x"]}`, "ack"},
		{`{"nack":["x"]}`, "nack[0]"},
		{`{"nack":[{}]}`, "nack[0].receipt"},
		{`{"nack":[{"receipt":"x","lease":"1s"}]}`, "nack[0].lease"},
		{`{"nack":[{"receipt":"x","delay":5}]}`, "nack[0].delay"},
		{`{"nack":[{"receipt":"x","receipt":"x"}]}`, "nack[0].receipt"},
		{`{"extend":[{"receipt":"x","delay":"1s"}]}`, "extend[0].delay"},
		{`{"credit":5}`, "credit"},
		{`{"ack":[` + many + `"x"],"release":[` + many + `"x"]}`, "release"},
		{`{"ack":["x"`, ""},
		{`{"ack":["x"]} {}`, ""},
		{`null`, ""},
	} {
		h.call("POST", "/v1/queues/q/settle", c.body).mustProblem(t, 400, c.field)
	}
	h.call("POST", "/v1/queues/q/settle", "").mustProblem(t, 400, "")
	h.call("POST", "/v1/queues/q/settle", "{}", "Content-Type", "text/plain").mustProblem(t, 415, "Content-Type")
	h.call("POST", "/v1/queues/q/settle", strings.Repeat(" ", 2<<20)+"{}").mustProblem(t, 413, "")
	got := h.settle(`{"ack":[],"nack":[]}`)
	assert.Equal(t, len(got), 0, "%v", got)
	if h.fake.last() != nil {
		t.Errorf("a bad body reached the backend: %v", h.fake.last())
	}
}

func TestSettleFailuresAreOfTheirReceipts(t *testing.T) {
	h := newHarness(t)
	h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
		var replies []task.Reply
		for _, c := range cmds {
			err := map[string]error{"no": task.ErrNotProposed, "unknown": task.ErrUnknown, "full": task.ErrOverloaded}[c.Id]
			replies = append(replies, task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_OK}, Err: err})
		}
		return replies
	}
	var acks []string
	for _, id := range []string{"no", "fine", "unknown", "full"} {
		acks = append(acks, fmt.Sprintf("%q", testKey.append(nil, receipt{namespace: "default", queue: "q", id: id})))
	}
	got := h.settle(`{"ack":[` + strings.Join(acks, ",") + `]}`)
	for i, want := range []int{503, 200, 504, 429} {
		if got[i].Status != want {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	if got[0].Problem["committed"] != "no" || got[2].Problem["committed"] != "unknown" {
		t.Errorf("%+v", got)
	}
}

func FuzzSettleBody(f *testing.F) {
	r := string(testKey.append(nil, receipt{namespace: "default", queue: "q", id: "a", fence: 300}))
	f.Add([]byte(`{"ack":["` + r + `"],"nack":[{"receipt":"` + r + `","delay":"1s","reason":"x"}],"credit":3}`))
	f.Add([]byte(`{"extend":[{"receipt":"` + r + `","lease":"1h"}],"release":["x"]}`))
	f.Add([]byte(`{"ack":[{"receipt":"` + r + `"}],"nack":[{"receipt":1}],"extend":[{"lease":"x"}],"credit":-1}`))
	f.Add([]byte(`{"ack":1}`))
	f.Add([]byte(`{"ack":["a" "b"]}`))
	f.Add([]byte(`{"ack":["\u00e9\"]}`))
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := parseConsumerLine(body, lane{testKey, "default", "q"})
		if err != nil {
			mustBeTheCallers(t, err)
			return
		}
		if !json.Valid(body) || len(v.all()) != v.receipts {
			t.Fatalf("%d of %d receipts", len(v.all()), v.receipts)
		}
		for _, a := range v.all() {
			if a.refused != nil {
				mustBeTheCallers(t, a.refused)
			} else if _, err := proto.Marshal(a.cmd); err != nil {
				t.Fatal(err)
			}
			if result := a.appendResult(nil, a.refused, a.refused == nil); !json.Valid(result) {
				t.Fatalf("%s", result)
			}
		}
	})
}

func FuzzQueueBody(f *testing.F) {
	f.Add([]byte(`{` + wholePolicy + `}`))
	f.Add([]byte(`{"signing":{"secrets":["` + whsec('a', 24) + `","sha256:01234567"]},"max_per_second":1e-3}`))
	f.Add([]byte(`{"target":1}`))
	f.Add([]byte(`{"max_per_second":"x","signing":1}`))
	f.Add([]byte(`{"signing":{"secrets":["a" 1]}}`))
	f.Add([]byte(`{"max_in_flight":1.5}`))
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := testParser().queuePolicy(body, "q")
		if err == nil {
			d.policy.Secrets, err = keepSecrets(d.secrets, nil)
		}
		if err != nil {
			mustBeTheCallers(t, err)
			return
		}
		if err := task.CheckQueue(d.policy); err != nil || !json.Valid(body) {
			t.Fatal(err)
		}
		answer := new(queueService).append(nil, "q", d.policy, nil)
		again, err := testParser().queuePolicy(answer, "q")
		if err == nil {
			again.policy.Secrets, err = keepSecrets(again.secrets, d.policy.Secrets)
		}
		if err != nil || !proto.Equal(again.policy, d.policy) {
			t.Fatalf("%s comes back as %v, %v", answer, again, err)
		}
	})
}

func FuzzLeaseBody(f *testing.F) {
	f.Add([]byte(`{"max":1000,"wait":"20s","lease":"30s"}`))
	f.Add([]byte(`{"max":"1"}`))
	f.Add([]byte(`{"wait":1}`))
	f.Add([]byte(`{"lease":"1y"}`))
	f.Add([]byte(`{"x":1}`))
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := parseDemand(body)
		if err != nil {
			mustBeTheCallers(t, err)
			return
		}
		if d.max < 1 || d.max > task.MaxLeaseTasks || d.wait < 0 || d.wait > maxLeaseWait || d.lease < task.MinLease ||
			d.lease > task.MaxLease {
			t.Fatalf("%+v", d)
		}
	})
}
