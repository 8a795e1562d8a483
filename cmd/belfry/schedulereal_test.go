package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// followSchedule follows a schedule through its life by the command line. The clock of the node is set ahead.
func followSchedule(t *testing.T, addr string) {
	t.Helper()
	arrived := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Ce-Subject") + " of " + r.Header.Get("Belfry-Schedule")
	}))
	t.Cleanup(receiver.Close)
	must := func(args, want string) string {
		t.Helper()
		out, code := belfry(t, append(strings.Fields(args), "--addr", addr)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("belfry %s: %d, want %q\n%s", args, code, want, out)
		}
		return out
	}
	put := must("schedule put report --every 1h --overlap allow --url "+receiver.URL+" --payload 1", "state        active")
	if strings.Count(put, "\nnext  ") != shownNext {
		t.Errorf("the put shows other coming occurrences than it should:\n%s", put)
	}
	for n := range 3 {
		must("advance 1h", "begun  1")
		got, want := <-arrived, fmt.Sprintf("report@%d of report", n+1)
		assert.Equal(t, got, want, "arrived")
	}
	must("schedule pause report --note migration", "note         migration")
	must("advance 3h", "begun  0")
	must("schedule resume report", "state        active")
	must("schedule fire report", "occurrence   report@4")
	assert.Equal(t, <-arrived, "report@4 of report", "arrived")
	must("task get report@4 --json", `"schedule":"report","occurrence":4`)
	checkOccurrences(t, must("schedule occurrences report --json --next 1", `"last"`))
	must("schedule list", "report  active")
	must("schedule delete report --yes", "report is deleted")
	out, code := belfry(t, "schedule", "show", "report", "--addr", addr)
	assert.Equal(t, code, exitNotFound, "after the deletion:\n%s", out)
}

// checkOccurrences checks the list after three occurrences of the rule and one of a call.
func checkOccurrences(t *testing.T, text string) {
	t.Helper()
	var found client.Occurrences
	assert.NoError(t, json.Unmarshal([]byte(text), &found))
	var origins []client.Origin
	for _, o := range found.Last {
		origins = append(origins, o.Origin)
		if o.Late > time.Minute {
			t.Errorf("%+v", o)
		}
	}
	if !slices.Equal(origins, []client.Origin{client.OriginRule, client.OriginRule, client.OriginRule, client.OriginCall}) ||
		len(found.Next) != 1 || found.Next[0].Number != 5 {
		t.Errorf("%s", text)
	}
}
