package httpapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestOperatorsAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.ok("GET", "/v1/nodes", "")
	d.ok("GET", "/v1/operations", "")
	d.accepted("POST", "/v1/nodes/one/drain", "")
	d.accepted("POST", "/v1/nodes/n1/drain", `{"leaders":true}`)
	d.ok("POST", "/v1/nodes/n1/replace", `{"preview":true}`)
	d.accepted("POST", "/v1/nodes/n1/resume", "{}")
	d.conflict("POST", "/v1/nodes/n1/remove", "")
	d.notFound("POST", "/v1/nodes/n2/drain", "")
	d.badRequest("POST", "/v1/nodes/n1/drain", `{"preview":1}`)
	d.badRequest("POST", "/v1/nodes/n1/resume", `{"leaders":true}`)
	d.unsupportedType("POST", "/v1/nodes/n1/drain", "x=1", "Content-Type", "text/plain")
	d.accepted("PUT", "/v1/cluster", `{"replication":3}`)
	d.ok("PUT", "/v1/cluster", `{"replication":5,"preview":true}`)
	d.conflict("PUT", "/v1/cluster", `{"replication":7}`)
	for _, body := range []string{"", "{}", `{"replication":2}`, `{"replication":9}`, `{"replication":"3"}`, `{"x":1}`} {
		d.badRequest("PUT", "/v1/cluster", body)
	}
	d.accepted("POST", "/v1/shards/2/split", "")
	d.ok("POST", "/v1/shards/2/split", `{"preview":true}`)
	d.conflict("POST", "/v1/shards/10/split", "{}")
	d.accepted("POST", "/v1/shards/move", `{"slots":"0-511,1024","to":4}`)
	d.conflict("POST", "/v1/shards/move", `{"slots":"0-511,1024","to":10}`)
	d.accepted("POST", "/v1/shards/balance", "")
	d.accepted("POST", "/v1/shards/balance", `{"to":9}`)
	for _, body := range []string{"", "{}", `{"slots":"1"}`, `{"to":1}`, `{"slots":[1],"to":1}`, `{"slots":"1","to":0}`,
		`{"slots":"4096","to":1}`, `{"slots":"7-6","to":1}`, `{"slots":"1-3,2","to":1}`, `{"slots":"-1","to":1}`,
		`{"slots":"","to":1}`, `{"slots":"1,","to":1}`, `{"slots":"1","to":1,"replication":3}`} {
		d.badRequest("POST", "/v1/shards/move", body)
	}
	d.badRequest("POST", "/v1/shards/0/split", "")
	d.badRequest("POST", "/v1/shards/x/split", "")
	d.badRequest("POST", "/v1/shards/balance", `{"to":257}`)
	ended := &d.fake.operations[0]
	ended.State, ended.EndedAt, ended.Percent = "done", view.OptionalInstant(testNow.UnixMilli()), 100
	d.ok("GET", "/v1/operations", "")
	d.ok("GET", "/v1/operations/op-1", "")
	d.notFound("GET", "/v1/operations/op-9", "")
	d.notFound("DELETE", "/v1/operations/op-9", "")
	d.conflict("DELETE", "/v1/operations/op-0", "")
	d.conflict("DELETE", "/v1/operations/op-3", "")
	d.accepted("DELETE", "/v1/operations/op-1", "")
	for err, status := range map[error]int{task.ErrNotProposed: 503, task.ErrUnknown: 504, errors.New("x"): 500} {
		d.fake.readErr = err
		d.call(status, "POST", "/v1/nodes/n1/drain", "")
		d.call(status, "PUT", "/v1/cluster", `{"replication":3}`)
		for _, path := range []string{"/v1/nodes", "/v1/operations", "/v1/operations/op-1"} {
			d.call(min(status, 503), "GET", path, "")
		}
	}
}

// TestKeyMakesTheOperation repeats a call with its key, and uses the key for another call.
func TestKeyMakesTheOperation(t *testing.T) {
	h := newHarness(t)
	id := func(path, body string, status int) string {
		t.Helper()
		a := h.call("POST", path, body, keyHeader, "k")
		assert.MustEqual(t, a.StatusCode, status, "%s %s: %s", path, body, a.text)
		var op view.Operation
		if err := json.Unmarshal([]byte(a.text), &struct {
			ID *string `json:"id"`
		}{&op.ID}); err != nil {
			t.Fatal(err)
		}
		if status == 202 && a.Header.Get("Location") != "/v1/operations/"+op.ID {
			t.Errorf("it is at %q", a.Header.Get("Location"))
		}
		return op.ID
	}
	first := id("/v1/nodes/n1/drain", "", 202)
	if again := id("/v1/nodes/one/drain", "{}", 202); again != first || first == "" || len(h.fake.operations) != 1 {
		t.Errorf("operation %q, then %q: %v", first, again, h.fake.operations)
	}
	id("/v1/nodes/n1/drain", `{"leaders":true}`, 422)
	id("/v1/nodes/n1/replace", "", 422)
}

// TestSlotsAreNormalised names slots in any order, and checks the operation and its text.
func TestSlotsAreNormalised(t *testing.T) {
	h := newHarness(t)
	a := h.call("POST", "/v1/shards/move", `{"slots":"1024, 4095,0-511,512","to":4}`, keyHeader, "k")
	if a.StatusCode != 202 || !strings.Contains(a.text, `"to":4,"slots":"0-512,1024,4095"`) {
		t.Errorf("%d %s", a.StatusCode, a.text)
	}
	again := h.call("POST", "/v1/shards/move", `{"slots":"0-512,1024,4095","to":4}`, keyHeader, "k")
	assert.Equal(t, again.text, a.text, "the same slots: %d", again.StatusCode)
	other := h.call("POST", "/v1/shards/move", `{"slots":"0-512,1024","to":4}`, keyHeader, "k")
	assert.Equal(t, other.StatusCode, 422, "other slots: %s", other.text)
	if stop := h.call("DELETE", a.Header.Get("Location"), ""); stop.StatusCode != 202 ||
		!strings.Contains(stop.text, `"kind":"keep_slots"`) {
		t.Errorf("stopped: %d %s", stop.StatusCode, stop.text)
	}
}

// TestStoppedOperationResumesItsNode checks that the deletion of an operation is a resume of its node.
func TestStoppedOperationResumesItsNode(t *testing.T) {
	h := newHarness(t)
	h.call("POST", "/v1/nodes/one/drain", "")
	a := h.call("DELETE", "/v1/operations/op-0", "")
	assert.MustEqual(t, a.StatusCode, 202, "%s", a.text)
	if last := h.fake.operations[1]; last.Kind != "resume" || last.Node != "n1" {
		t.Errorf("begun: %+v", last)
	}
}
