package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// operate asks a real node that is alone for operations. The node has four shards, which become six. It refuses what it
// cannot do, with the reason.
func operate(t *testing.T, addr string) {
	t.Helper()
	for _, step := range []struct {
		args, want string
		code       int
	}{
		{"node list", "REPLICAS", 0},
		{"node list --json", `"order":"work"`, 0},
		{"cluster status", "3 replicas wanted of each shard, at least 1 there", 0},
		{"node drain n1", "no other node", exitFailed},
		{"node remove n1 --preview", "no other node", exitFailed},
		{"node replace n2 --yes", "no node of the cluster has this id or name", exitNotFound},
		{"node drain n1 --leaders", "no other node with a replica", exitFailed},
		{"cluster replication 3 --preview", "3 replicas of each shard need as many nodes", exitFailed},
		{"cluster replication 2", "1, 3 or 5", exitUsage},
		{"operation list", "no operation is known", 0},
		{"operation show op-1", "no operation has this id", exitNotFound},
		{"cluster replication 1 --preview", "no replica moves", 0},
		{"cluster replication 1 --wait", "replication 1: done, 100 %", 0},
		{"node resume n1 --wait", "resume n1: done, 100 %", 0},
		{"operation list", "resume n1", 0},
		{"cluster status", "1 replicas of each shard", 0},
		{"shards list", "1024   3072-4095", 0},
		{"shards list --json", `"slots":[{"first":0,"end":1024}]`, 0},
		{"shards split 9 --yes", "there is no shard 9", exitFailed},
		{"shards split x", "no number of a shard", exitUsage},
		{"shards move 5000 --to 2 --yes", "0 to 4095", exitFailed},
		{"shards move 1", "--to 0", exitUsage},
		{"shards balance --shards 0", "at least 1", exitUsage},
		{"shards balance --shards 3 --yes", "shards are not merged", exitFailed},
		{"shards balance --preview", "0 slots to move", 0},
		{"shards balance --shards 8 --preview", "5 (new)", 0},
		{"shards split 1 --yes --wait", "split shard 1: done, 100 % (512 of 512)", 0},
		{"shards move 0-9,20 --to 2 --yes --wait", "move slots 0-9,20 to shard 2: done, 100 % (11 of 11)", 0},
		{"shards balance --shards 6 --yes --wait", "balance 6 shards: done, 100 %", 0},
		{"shards balance --yes --wait", "balance shards: done, 100 %", 0},
		{"shards list", "683", 0},
	} {
		out, code := belfry(t, append(strings.Fields(step.args), "--addr", addr)...)
		if code != step.code || !strings.Contains(out, step.want) {
			t.Errorf("belfry %s: exit %d, want %d and %q\n%s", step.args, code, step.code, step.want, out)
		}
	}
}

// operationStates answers the states of an operation, one after the other, and 404 for an empty one.
func operationStates(t *testing.T, states ...string) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if states[0] == "" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"type":"urn:belfry:problem:operation-not-found"}`)
		} else {
			_, _ = fmt.Fprintf(w, `{"id":"op-1","kind":"drain","node_name":"n3","total":4,%s}`, states[0])
		}
		states = states[1:]
	}))
	t.Cleanup(server.Close)
	conn, err := client.New(client.Config{Addrs: []string{server.URL}, FixedAddrs: true, SingleCalls: true})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

const halfWay = `"state":"running","done":2,"percent":50,"bytes_left":2097152,"bytes_per_second":1048576,
	"waits":["node n4 does not answer"]`

// TestOperationIsFollowed waits for an operation: the result has its last state, and the progress stands beside it.
func TestOperationIsFollowed(t *testing.T) {
	for last, test := range map[string]struct{ want, err string }{
		`"state":"done","done":4,"percent":100`: {"drain n3: done, 100 % (4 of 4)\n", ""},
		`"state":"stopped","done":2,"percent":50,"detail":"another took its place"`: {
			"drain n3: stopped, 50 % (2 of 4)\n  reason: another took its place\n", "op-1 was stopped: another"},
	} {
		conn := operationStates(t, "", halfWay, halfWay, last)
		var out, notes bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetErr(&notes)
		cmd.SetContext(t.Context())
		c := &cli.Call{Command: cmd, Client: conn, Out: &output.Printer{Out: &out}}
		err := showEnd(c, &client.Operation{
			ID: "op-1", Kind: client.Drain, NodeName: "n3", State: client.OperationRunning, Total: 4}, client.OperationDone)
		if out.String() != test.want || notes.Len() > 0 {
			t.Errorf("printed\n%swant\n%snoted %q", out.String(), test.want, notes.String())
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%v, want %q", err, test.err)
		}
	}
}
