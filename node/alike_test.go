//go:build !race

package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// alikeCall is one of two calls that callers must not be able to tell apart.
type alikeCall struct{ key, method, path, body string }

// TestRefusalsOfANodeAreTheSame makes pairs of calls of a caller of one namespace at a running node: about things of
// another namespace and about things that are nowhere, and with keys that are wrong for different reasons. The calls of
// a pair get the same answer.
func TestRefusalsOfANodeAreTheSame(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		a := newTenantAPI(t)
		for name, pair := range a.alikePairs(20) {
			one, other := a.answerOf(pair[0]), a.answerOf(pair[1])
			assert.Equal(t, one, other, "%s", name)
		}
	})
}

// TestRefusalsOfANodeTakeTheSameTime measures the calls of TestRefusalsOfANodeAreTheSame. The times of a pair overlap:
// the probability that the one takes longer than the other is near to a half.
func TestRefusalsOfANodeTakeTheSameTime(t *testing.T) {
	gated.Need(t, gated.Timed)
	const calls, tries, tolerance = 4000, 8, 0.07
	a := newTenantAPI(t)
	for name, pair := range a.alikePairs(2000) {
		odds := 0.0
		for range tries {
			if odds = a.longer(pair, calls); math.Abs(odds-0.5) < tolerance {
				break
			}
		}
		t.Logf("%s: the one takes longer in %.1f %% of the comparisons", name, 100*odds)
		if math.Abs(odds-0.5) >= tolerance {
			t.Errorf("%s can be told apart", name)
		}
	}
}

// alikePairs returns pairs of calls. The first one of a pair is about a thing that exists, or existed, for others. The
// node has as many other tasks.
func (a *tenantAPI) alikePairs(tasks int) map[string][2]alikeCall {
	a.t.Helper()
	for _, name := range []string{"red", "blue", "gone"} {
		a.call(201, "", "PUT", "/v1/namespaces/"+name, "")
	}
	root := a.key("", `{"role":"admin","namespace":"*"}`)
	for i := range tasks {
		path := fmt.Sprintf("/v1/namespaces/%s/tasks/task-%04d", []string{"red", "blue"}[i%2], i)
		a.call(201, root, "PUT", path, `{"delay":"1h"}`)
	}
	red, blue := a.key(root, `{"role":"admin","namespace":"red"}`), a.key(root, `{"role":"admin","namespace":"blue"}`)
	redID, _ := access.ParseKey(red)
	blueID, _ := access.ParseKey(blue)
	held, former := a.leaseIn(root, "blue"), a.leaseIn(root, "gone")
	var op struct{ ID string }
	a.read(a.call(202, root, "DELETE", "/v1/namespaces/gone", ""), &op)
	settle := func(receipt string) alikeCall {
		return alikeCall{red, "POST", "/v1/queues/q/settle", `{"ack":["` + receipt + `"]}`}
	}
	get := func(path string) alikeCall { return alikeCall{red, "GET", path, ""} }
	with := func(key string) alikeCall { return alikeCall{key, "GET", "/v1/tasks/none", ""} }
	expired, revoked, wrong := a.endedKeys(root)
	return map[string][2]alikeCall{
		"a task by the path of its namespace": {
			get("/v1/namespaces/blue/tasks/task-0001"), get("/v1/namespaces/none/tasks/task-0001"),
		},
		"a task of that id": {get("/v1/tasks/task-0001"), get("/v1/tasks/task-9999")},
		"a cancel":          {{red, "DELETE", "/v1/tasks/task-0001", ""}, {red, "DELETE", "/v1/tasks/task-9999", ""}},
		"a namespace":       {get("/v1/namespaces/blue"), get("/v1/namespaces/none")},
		"a key":             {get("/v1/keys/" + blueID), get("/v1/keys/aaaaaaaaaa")},
		"an operation":      {get("/v1/operations/" + op.ID), get("/v1/operations/op-0123456789abcdef")},
		"a receipt":         {settle(held), settle(former)},
		"a queue":           {get("/v1/namespaces/blue/queues/q"), get("/v1/namespaces/none/queues/q")},
		"a wrong secret":    {with(access.NewSecret(redID)), with(wrong)},
		"an expired key":    {with(expired), with(wrong)},
		"a revoked key":     {with(revoked), with(wrong)},
	}
}

// leaseIn leases a new task in a namespace, and returns its receipt.
func (a *tenantAPI) leaseIn(root, namespace string) string {
	a.t.Helper()
	in := "/v1/namespaces/" + namespace
	a.call(201, root, "PUT", in+"/tasks/due", `{"delay":"0s","queue":"q"}`)
	var leased struct{ Tasks []struct{ Receipt string } }
	a.read(a.call(200, root, "POST", in+"/queues/q/lease", `{"wait":"20s","lease":"1h"}`), &leased)
	return leased.Tasks[0].Receipt
}

// endedKeys returns a key that has expired, one that is revoked and one that never was.
func (a *tenantAPI) endedKeys(root string) (expired, revoked, wrong string) {
	a.t.Helper()
	_, wrong = access.NewKey()
	revoked = a.key(root, `{"role":"admin","namespace":"red"}`)
	id, _ := access.ParseKey(revoked)
	a.call(204, root, "DELETE", "/v1/keys/"+id, "")
	end := time.Now().Add(300 * time.Millisecond)
	var made struct{ Key string }
	a.read(a.call(201, root, "POST", "/v1/keys", `{"name":"brief","grants":[{"role":"read","namespace":"red"}],`+
		`"expires_at":"`+end.UTC().Format(time.RFC3339Nano)+`"}`), &made)
	valid := alikeCall{made.Key, "GET", "/v1/whoami", ""}
	until(a.t, func() bool { return !strings.HasPrefix(a.answerOf(valid), "200") })
	return made.Key, revoked, wrong
}

func (a *tenantAPI) read(text string, into any) {
	a.t.Helper()
	assert.NoError(a.t, json.Unmarshal([]byte(text), into), "%s", text)
}

// request returns a call as a request. Each has another address, so that none is over the limit of wrong keys.
func (c *alikeCall) request(turn int) *http.Request {
	r := httptest.NewRequest(c.method, "http://localhost"+c.path, strings.NewReader(c.body))
	r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1234", turn>>16&255, turn>>8&255, turn&255)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.key)
	return r
}

// answerOf returns the status, the header and the body of an answer, without the receipt that the call has sent.
func (a *tenantAPI) answerOf(c alikeCall) string {
	w := httptest.NewRecorder()
	a.api.ServeHTTP(w, c.request(0))
	_, sent, _ := strings.Cut(c.body, `["`)
	text := fmt.Sprint(w.Code, w.Header(), w.Body)
	if receipt := strings.TrimSuffix(sent, `"]}`); receipt != "" {
		text = strings.ReplaceAll(text, receipt, "")
	}
	return text
}

// longer makes the calls of a pair in turns, and returns the probability that the first one takes longer than the
// second (the statistic of Mann and Whitney).
func (a *tenantAPI) longer(pair [2]alikeCall, calls int) float64 {
	type sample struct {
		took  time.Duration
		first bool
	}
	var samples []sample
	for i := range 2 * calls {
		which := (i + i/2) % 2 // each of them is the former one as often
		w, r := httptest.NewRecorder(), pair[which].request(i)
		began := time.Now()
		a.api.ServeHTTP(w, r)
		samples = append(samples, sample{time.Since(began), which == 0})
	}
	slices.SortFunc(samples, func(x, y sample) int { return cmp.Compare(x.took, y.took) })
	pairs, seconds := 0.0, 0.0
	for begin := 0; begin < len(samples); { // samples of one length count half
		end, ties := begin, [2]float64{}
		for ; end < len(samples) && samples[end].took == samples[begin].took; end++ {
			ties[map[bool]int{false: 1}[samples[end].first]]++
		}
		pairs += ties[0] * (seconds + ties[1]/2)
		seconds += ties[1]
		begin = end
	}
	return pairs / float64(calls) / float64(calls)
}
