package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/httpapi/apitest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// Real nodes get random requests that follow the contract. Every answer is documented, no node dies, and none logs an
// error.
func TestNodesKeepTheContract(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	cluster := localCluster(t, local.Config{})
	_, document := request(t, "GET", cluster.URLs()[0]+"/openapi.yaml")
	api, err := apitest.Load([]byte(document))
	assert.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			ask(t, api, rapid.SampledFrom(cluster.URLs()).Draw(t, "node"))
		}
	})
	for _, n := range cluster.Nodes() {
		if n.PID == 0 {
			t.Errorf("%s has died", n.Name)
		}
		log, err := os.ReadFile(filepath.Join(n.Dir, "belfry.log"))
		assert.NoError(t, err)
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") {
				t.Errorf("%s: %s", n.Name, line)
			}
		}
	}
}

// streamPatience is the time after which the test ends a stream, because a stream ends only when its caller leaves.
const streamPatience = 100 * time.Millisecond

// isStream reports whether the answer to a request may go on until its caller leaves.
func isStream(r apitest.Request) bool {
	return slices.ContainsFunc([]string{"/stream", "/events", "/audit"}, func(path string) bool {
		return strings.HasSuffix(r.Operation, path)
	})
}

func ask(t *rapid.T, api *apitest.API, node string) {
	r := api.Draw(t)
	ctx, cancel := context.WithCancel(t.Context())
	if isStream(r) {
		ctx, cancel = context.WithTimeout(t.Context(), streamPatience)
	}
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, node+r.Target, strings.NewReader(r.Body))
	if err != nil {
		t.Skip("no request line can carry it")
	}
	for _, h := range r.Header {
		req.Header.Set(h[0], h[1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		if isStream(r) || strings.Contains(err.Error(), "invalid header") {
			return
		}
		t.Fatalf("%v\n%v", r, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil && isStream(r) {
		return // it was under way
	}
	if err != nil {
		t.Fatalf("%v\n%v", r, err)
	}
	if err := api.Check(r, req, resp.StatusCode, resp.Header, body); err != nil {
		t.Fatalf("%v\n%v", r, err)
	}
}

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
