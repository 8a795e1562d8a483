package metamorphic

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

const (
	// repeatAfter is the pause before a call is repeated that the cluster refused for a while, and patience the time for
	// which it is repeated.
	repeatAfter, patience = 20 * time.Millisecond, 10 * time.Second
	// slow is how long a step may take, except a bulk operation and a drain. Later it would meet attempts in some
	// clusters only.
	slow = 400 * time.Millisecond
)

// player plays a history on one cluster.
type player struct {
	t       testing.TB
	cluster *nodetest.Cluster
	http    *http.Client
	reader  *reader
	turn    int // number of the next call, which goes to the nodes in turn

	mu       sync.Mutex        // guards the fields below
	arrivals []string          // since the last step
	fences   map[string]uint64 // highest of each task
}

// play plays a history on a cluster of a shape, and returns the steps with their answers, and the attempts between them.
func play(t testing.TB, s shape, steps []step) (record []string) {
	t.Helper()
	c := nodetest.Start(t, s.nodes, func(_ int, cfg *node.Config) { cfg.Shards, cfg.MoveRate = s.shards, s.moveRate })
	p := &player{t: t, cluster: c, http: c.HTTP(), reader: newReader(), fences: map[string]uint64{}}
	p.receive()
	if !time.Now().Before(start) {
		t.Fatalf("the cluster is ready at %v only", time.Now())
	}
	var changes sync.WaitGroup
	changes.Go(func() { p.reshape(s.changes, steps[len(steps)-1].at) })
	for _, st := range steps {
		begin := start.Add(time.Duration(st.at)*time.Second + callAt)
		time.Sleep(time.Until(begin))
		for _, a := range p.came() {
			record = append(record, "\tattempt "+a)
		}
		record = append(record, st.String()+"\n\t"+p.step(st))
		if took := time.Since(begin); took > slow && st.verb != bulk && st.verb != drain {
			t.Errorf("%s: %v took %v", s.name, st, took)
		}
	}
	changes.Wait()
	return record
}

// receive starts the receiver of all attempts. A payload tells how many attempts fail.
func (p *player) receive() {
	l, err := p.cluster.Network.ListenTCP(receiverAddr)
	assert.NoError(p.t, err)
	server := &http.Server{Handler: receiver.Handler(p.take), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // its error is that of Close
	p.t.Cleanup(func() { _ = server.Close() })
}

func (p *player) take(a receiver.Arrival) int {
	ns, _, _ := strings.Cut(a.Source, "/queues/")
	path := ns + "/" + a.TaskID
	occurrence := p.reader.occurrence(path, a.WebhookID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Fence <= p.fences[path] {
		p.t.Errorf("%s: fence %d after %d", path, a.Fence, p.fences[path])
	}
	p.fences[path] = a.Fence
	p.arrivals = append(p.arrivals, fmt.Sprintf("%s %s attempt %d, due %s: %s",
		second(a.At), occurrence, a.Attempt, second(a.Due), a.Body))
	var payload struct{ Fail int }
	assert.Equal(p.t, json.Unmarshal(a.Body, &payload), nil, "%s", path)
	if a.Attempt <= payload.Fail {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// came returns the attempts since the last step, in an order that all clusters share.
func (p *player) came() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	came := p.arrivals
	p.arrivals = nil
	slices.Sort(came)
	return came
}

// reshape makes changes of the cluster's shape at equal distances over a number of seconds, each at the instant of a
// call.
func (p *player) reshape(changes []change, seconds int) {
	for i, c := range changes {
		at := start.Add(time.Duration(seconds*(i+1)/(len(changes)+2))*time.Second + callAt)
		time.Sleep(time.Until(at))
		status, _, body := p.call(step{verb: "POST", path: c.path, body: c.body, key: fmt.Sprint("change-", i)})
		if status != http.StatusAccepted {
			p.t.Errorf("%v: %d %s", c, status, body)
			continue
		}
		p.await(body)
		p.t.Logf("%v: %v until %v", c, at.Sub(start), time.Since(start))
	}
}

// await waits for the end of an operation, and returns its last state.
func (p *player) await(operation []byte) []byte {
	for {
		var o struct{ ID, State string }
		if err := json.Unmarshal(operation, &o); err != nil {
			p.t.Errorf("%s: %v", operation, err)
			return operation
		}
		if o.State != "running" {
			return operation
		}
		time.Sleep(repeatAfter)
		_, _, operation = p.call(step{verb: "GET", path: "/v1/operations/" + o.ID})
	}
}

// step makes the calls of a step, and returns the answer in the form in which clusters must agree.
func (p *player) step(s step) string {
	ns := namespaceOf(s.path)
	switch s.verb {
	case readPages:
		return p.pages(ns, s)
	case leaseAll:
		return p.lease(ns, s)
	case settle:
		receipt := p.reader.known(p.reader.receipts, ns, s.task)
		if receipt == "" {
			return "no receipt"
		}
		s.body = "{" + strings.ReplaceAll(s.body, "RECEIPT", fmt.Sprintf("%q", receipt)) + "}"
		s.verb = "POST"
	case bulk:
		return p.bulk(ns, s)
	case drain:
		return p.drain(ns, s)
	}
	status, _, body := p.call(s)
	return fmt.Sprint(status, " ", p.reader.text(ns, body))
}

func namespaceOf(path string) string {
	if strings.HasPrefix(path, namespaces[1]) {
		return namespaces[1]
	}
	return namespaces[0]
}

// bulk waits for the end of a bulk operation, and returns its outcomes.
func (p *player) bulk(ns string, s step) string {
	s.verb = "POST"
	status, _, body := p.call(s)
	if status == http.StatusAccepted {
		body = p.await(body)
	}
	var o struct {
		State    string
		Matched  int
		Outcomes map[string]int
	}
	if err := json.Unmarshal(body, &o); err != nil || status >= 300 {
		return fmt.Sprint(status, " ", p.reader.text(ns, body))
	}
	return fmt.Sprint(status, " ", o)
}

// pages returns all elements of a list.
func (p *player) pages(ns string, s step) string {
	s.verb = "GET"
	var all []any
	for path := s.path; ; {
		status, _, body := p.call(s)
		if status != http.StatusOK {
			return fmt.Sprint(status, " ", p.reader.text(ns, body))
		}
		var page map[string]json.RawMessage
		assert.NoError(p.t, json.Unmarshal(body, &page), "%v: %s", s, body)
		var next string
		_ = json.Unmarshal(page["next_cursor"], &next) // null or absent on the last page
		for _, name := range []string{"tasks", "schedules"} {
			var elements []any
			_ = json.Unmarshal([]byte(nonempty(page[name])), &elements)
			all = append(all, elements...)
		}
		if next == "" {
			break
		}
		s.path = path + "&cursor=" + next
	}
	p.reader.compared(ns, all)
	if strings.Contains(s.path, "order=due") {
		sortDue(all)
	}
	return lines(all)
}

func nonempty(m json.RawMessage) string {
	if m == nil {
		return "[]"
	}
	return string(m)
}

func lines(all []any) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = encode(v)
	}
	return fmt.Sprint(len(all), "\n\t", strings.Join(texts, "\n\t"))
}

// lease leases until nothing is left, and returns all tasks by their ids.
func (p *player) lease(ns string, s step) string {
	tasks, refusal := p.leaseTasks(ns, s)
	if refusal != "" {
		return refusal
	}
	p.reader.compared(ns, tasks)
	slices.SortFunc(tasks, byID)
	return lines(tasks)
}

// leaseTasks repeats a lease until it gets no task. refusal is an answer without tasks.
func (p *player) leaseTasks(ns string, s step) (tasks []any, refusal string) {
	for s.verb = "POST"; ; {
		status, _, body := p.call(s)
		var answer struct{ Tasks []any }
		if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
			return nil, fmt.Sprint(status, " ", p.reader.text(ns, body))
		}
		if len(answer.Tasks) == 0 {
			return tasks, ""
		}
		tasks = append(tasks, answer.Tasks...)
	}
}

// drain schedules the tasks of the limited queue, and leases and acknowledges them round after round. It returns how
// many tasks were leased, and the most at once.
func (p *player) drain(ns string, s step) string {
	s.verb = "POST"
	if status, _, body := p.call(s); status != http.StatusOK {
		return fmt.Sprint(status, " ", p.reader.text(ns, body))
	}
	queue := ns + "/queues/" + limitedQueue
	lease := step{path: queue + "/lease", body: `{"max":1000,"wait":"100ms","lease":"30s"}`, key: s.key}
	leased, most := 0, 0
	for began := time.Now(); leased < limitedTasks && time.Since(began) < patience; {
		round, refusal := p.leaseTasks(ns, lease)
		if refusal != "" {
			return refusal
		}
		if len(round) == 0 {
			continue
		}
		leased, most = leased+len(round), max(most, len(round))
		if refusal := p.acknowledge(ns, queue, round); refusal != "" {
			return refusal
		}
	}
	return fmt.Sprintf("%d leased, %d at once at most", leased, most)
}

// acknowledge settles leases. refusal is an answer without results.
func (p *player) acknowledge(ns, queue string, tasks []any) (refusal string) {
	receipts := make([]any, len(tasks))
	for i, t := range tasks {
		receipts[i] = t.(map[string]any)["receipt"]
	}
	body := encode(map[string]any{"ack": receipts})
	status, _, answer := p.call(step{verb: "POST", path: queue + "/settle", body: body, key: "ack"})
	if status != http.StatusOK {
		return fmt.Sprint(status, " ", p.reader.text(ns, answer))
	}
	return ""
}

// call makes one call at the next node. It repeats a call that the cluster refuses for a while.
func (p *player) call(s step) (status int, header http.Header, body []byte) {
	for began := time.Now(); ; time.Sleep(repeatAfter) {
		p.mu.Lock()
		p.turn++
		url := p.cluster.URL(p.turn % len(p.cluster.URLs()))
		p.mu.Unlock()
		req, err := http.NewRequestWithContext(p.t.Context(), s.verb, url+s.path, strings.NewReader(s.body))
		assert.NoError(p.t, err)
		maps.Copy(req.Header, p.header(s))
		res, err := p.http.Do(req)
		if err != nil {
			p.t.Errorf("%v: %v", s, err)
			return 0, nil, nil
		}
		body, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		assert.Equal(p.t, err, nil, "%v", s)
		if res.StatusCode < http.StatusInternalServerError || time.Since(began) > patience {
			return res.StatusCode, res.Header, body
		}
	}
}

func (p *player) header(s step) http.Header {
	h := http.Header{}
	if s.verb != http.MethodGet {
		h.Set("Idempotency-Key", s.key)
	}
	if s.body != "" {
		h.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(s.path, "/batch") {
		h.Set("Content-Type", "application/x-ndjson")
	}
	if s.ifAbsent {
		h.Set("If-None-Match", "*")
	}
	if revision := p.reader.known(p.reader.revisions, namespaceOf(s.path), s.ifMatch); revision != "" {
		h.Set("If-Match", `"`+revision+`"`)
	}
	return h
}
