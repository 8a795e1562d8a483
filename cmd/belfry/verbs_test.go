package main

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
)

// Each verb prints the change that it made on a real node.
func TestVerbsOnANode(t *testing.T) {
	addr, c, _ := inNamespace(t)
	for _, step := range []struct{ args, stdin, want string }{
		{"queue patch mails --max-in-flight 7 --retry-delays 4m,1h", "", "max in flight  7"},
		{"queue pause mails", "", "(paused)"},
		{"task schedule a --queue mails --delay P1D --label tenant:acme --if-absent", "", "tenant=acme"},
		{"task schedule a --queue mails --delay P1D --if-absent", "", "task a is there already (scheduled)"},
		{"task patch a --delay 1.5d --label tenant= --label city=bonn", "", "city=bonn"},
		{"task list --label city:bonn --json", "", `"id":"a"`},
		{"task fire a", "", "revision"},
		{"lease take mails", "", "no task is ready in queue mails"},
		{"queue resume mails", "", "consumers"},
		{"task batch", `{"op":"patch","id":"b","delay":"1h"}` + "\n" + `{"op":"schedule","id":"b","delay":"1h"}`,
			"1 of 2 operations were refused"},
		{"task schedule 订单 --delay 1h", "", `has "订" as character 1`},
		{"dead list mails", "", "no dead letter was found in queue mails"},
	} {
		root := newRoot()
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetIn(strings.NewReader(step.stdin))
		root.SetArgs(append(strings.Fields(step.args), "--addr", addr))
		err := root.ExecuteContext(t.Context())
		if err != nil {
			out.WriteString(err.Error())
		}
		if !strings.Contains(out.String(), step.want) {
			t.Errorf("belfry %s: %v, want %q\n%s", step.args, err, step.want, out.String())
		}
	}
	awaitState(t, c, "a", client.StateReady) // fired: the task waits only for a consumer
	if b, err := c.Get(t.Context(), "b"); err != nil || b.State != client.StateScheduled {
		t.Errorf("b was not scheduled by the batch: %+v %v", b, err)
	}
}
