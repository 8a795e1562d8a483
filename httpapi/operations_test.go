package httpapi

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
)

func TestOperatorsAnswersAreDocumented(t *testing.T) {
	d := newDocumented(t)
	d.call(200, "GET", "/v1/nodes", "")
	d.call(200, "GET", "/v1/operations", "")
	d.call(202, "POST", "/v1/nodes/one/drain", "")
	d.call(202, "POST", "/v1/nodes/n1/drain", `{"leaders":true}`)
	d.call(200, "POST", "/v1/nodes/n1/replace", `{"preview":true}`)
	d.call(202, "POST", "/v1/nodes/n1/resume", "{}")
	d.call(409, "POST", "/v1/nodes/n1/remove", "")
	d.call(404, "POST", "/v1/nodes/n2/drain", "")
	d.call(400, "POST", "/v1/nodes/n1/drain", `{"preview":1}`)
	d.call(400, "POST", "/v1/nodes/n1/resume", `{"leaders":true}`)
	d.call(415, "POST", "/v1/nodes/n1/drain", "x=1", "Content-Type", "text/plain")
	d.call(202, "PUT", "/v1/cluster", `{"replication":3}`)
	d.call(200, "PUT", "/v1/cluster", `{"replication":5,"preview":true}`)
	d.call(409, "PUT", "/v1/cluster", `{"replication":7}`)
	for _, body := range []string{"", "{}", `{"replication":2}`, `{"replication":9}`, `{"replication":"3"}`, `{"x":1}`} {
		d.call(400, "PUT", "/v1/cluster", body)
	}
	ended := Instant(testNow.UnixMilli())
	d.fake.operations[0].State, d.fake.operations[0].EndedAt, d.fake.operations[0].Percent = "done", &ended, 100
	d.call(200, "GET", "/v1/operations", "")
	d.call(200, "GET", "/v1/operations/op-1", "")
	d.call(404, "GET", "/v1/operations/op-9", "")
	d.call(404, "DELETE", "/v1/operations/op-9", "")
	d.call(409, "DELETE", "/v1/operations/op-0", "")
	d.call(409, "DELETE", "/v1/operations/op-3", "")
	d.call(202, "DELETE", "/v1/operations/op-1", "")
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
		if a.StatusCode != status {
			t.Fatalf("%s %s: %d %s", path, body, a.StatusCode, a.text)
		}
		var op OperationView
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

// TestStoppedOperationResumesItsNode checks that the deletion of an operation is a resume of its node.
func TestStoppedOperationResumesItsNode(t *testing.T) {
	h := newHarness(t)
	h.call("POST", "/v1/nodes/one/drain", "")
	if a := h.call("DELETE", "/v1/operations/op-0", ""); a.StatusCode != 202 {
		t.Fatalf("%d %s", a.StatusCode, a.text)
	}
	if last := h.fake.operations[1]; last.Kind != "resume" || last.Node != "n1" {
		t.Errorf("begun: %+v", last)
	}
}
