package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
)

// shelf is a service that leases each of its tasks once and answers every settle with 200.
type shelf struct {
	mu      sync.Mutex // guards what follows
	ids     []string
	settled []string // id and verb of each settle, in order
	grants  uint64
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/lease") {
		s.lease(w)
		return
	}
	s.settle(w, body)
}

func (s *shelf) lease(w io.Writer) {
	var tasks []string
	for _, id := range s.ids {
		s.grants++
		tasks = append(tasks, fmt.Sprintf(`{"id":%q,"receipt":%q,"attempt":1,"fence":%d,"payload":{"op":7},"shard":3,
			"webhook_id":"w","fire_at":"2026-01-01T00:00:00Z","lease_ends_at":"2026-01-01T00:00:01Z"}`, id, id, s.grants))
	}
	s.ids = nil
	_, _ = fmt.Fprintf(w, `{"tasks":[%s]}`, strings.Join(tasks, ",")) // the consumer may be gone
}

func (s *shelf) settle(w io.Writer, body []byte) {
	var in struct {
		Ack, Release []string
		Nack, Extend []struct{ Receipt string }
	}
	if json.Unmarshal(body, &in) != nil {
		return
	}
	var results []string
	take := func(verb, id string) {
		s.settled = append(s.settled, id+" "+verb)
		results = append(results, fmt.Sprintf(`{"receipt":%q,"id":%q,"status":200}`, id, id))
	}
	for _, id := range in.Ack {
		take("ack", id)
	}
	for _, n := range in.Nack {
		take("nack", n.Receipt)
	}
	for _, e := range in.Extend {
		take("extend", e.Receipt)
	}
	for _, id := range in.Release {
		take("release", id)
	}
	_, _ = fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(results, ",")) // the consumer may be gone
}

// TestSeedDecidesWhatConsumersDo checks that the treatment of a task depends on the seed and the task, not on the
// consumer or the time.
func TestSeedDecidesWhatConsumersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := make([]string, 200)
		for i := range ids {
			ids[i] = fmt.Sprintf("t-%d", i)
		}
		treat := func(seed uint64) (verbs []string, calls []history.Call) {
			l, rec := newLoad(t, (&shelf{}).ServeHTTP, Config{Seed: seed, Lease: 20 * time.Millisecond})
			for i, id := range ids {
				l.player.Treat(t.Context(), load.Lease{Arrival: history.Arrival{ID: id, Attempt: 1, Fence: uint64(i)}, Receipt: id})
			}
			tried := map[int64]bool{} // the number of tries depends on the machine
			for _, c := range rec.History().Calls {
				if !tried[c.Op] {
					verbs, calls = append(verbs, c.ID+" "+string(c.Kind)), append(calls, c)
				}
				tried[c.Op] = true
			}
			return verbs, calls
		}
		one, calls := treat(1)
		again, _ := treat(1)
		other, _ := treat(2)
		if !slices.Equal(one, again) {
			t.Error("the same seed treats the same tasks in two ways")
		}
		if slices.Equal(one, other) {
			t.Error("two seeds treat tasks alike")
		}
		seen := map[history.Kind]int{}
		for _, c := range calls {
			seen[c.Kind]++
			if c.Outcome == history.Failed || c.Kind == history.Extend && c.Ask.Delay == 0 {
				t.Errorf("%+v", c)
			}
		}
		for _, kind := range []history.Kind{history.Ack, history.Nack, history.Extend, history.Release} {
			if seen[kind] == 0 {
				t.Errorf("none of %d tasks was settled with %s", len(ids), kind)
			}
		}
	})
}

// TestLeasesAreRecorded checks that leases are recorded as arrivals, with the data that their consumer has.
func TestLeasesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rec := newLoad(t, (&shelf{ids: []string{"a", "b"}}).ServeHTTP, Config{})
		given, ok := l.lease(t.Context(), newRand(1), l.cfg.scriptQueue(), l.demand(newRand(1)))
		h := rec.History()
		if !ok || len(given) != 2 || len(h.Arrivals) != 2 {
			t.Fatalf("%v, %d recorded", given, len(h.Arrivals))
		}
		a := h.Arrivals[1]
		if a.ID != "b" || !a.Pulled || a.Fence != 2 || a.Wrote != 7 || a.Shard != 3 || a.Asked == 0 || a.Asked > a.At ||
			a.LeaseEnds.Sub(a.Due) != time.Second || a.WebhookID != "w" {
			t.Errorf("%+v", a)
		}
	})
}

// TestBulkIsAcknowledgedTogether checks that a bulk consumer acknowledges all its leases in one call, and that each
// ack is recorded.
func TestBulkIsAcknowledgedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{ids: []string{"a", "b", "c"}}
		l, rec := newLoad(t, s.ServeHTTP, Config{})
		given, _ := l.lease(t.Context(), newRand(1), l.cfg.pullQueue(), l.demand(newRand(1)))
		l.ackAll(t.Context(), newRand(1), given)
		h := rec.History()
		if len(s.settled) != 3 || len(h.Calls) != 3 || h.Calls[0].Start != h.Calls[2].Start {
			t.Fatalf("settled %v, recorded %+v", s.settled, h.Calls)
		}
		for i, c := range h.Calls {
			if c.Kind != history.Ack || c.ID != given[i].ID || c.Ask.Fence != given[i].Fence || c.Outcome != history.OK ||
				c.Op != h.Calls[0].Op+int64(i) {
				t.Errorf("%+v", c)
			}
		}
	})
}

func TestConsumersEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLoad(t, (&shelf{}).ServeHTTP, Config{Consumers: 2, BulkConsumers: 2})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.Consume(ctx)
	})
}

func deliver(t *testing.T, url, id string) (*http.Response, int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"op":1}`))
	assert.NoError(t, err)
	req.Header.Set("Ce-Subject", id)
	req.Header.Set("Belfry-Attempt", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err)
	return resp, len(body), nil
}

func listen(t *testing.T, rec *history.Recorder) *Receiver {
	t.Helper()
	r, err := Listen(t.Context(), rec, "127.0.0.1")
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, r.Close(), nil)
	})
	return r
}

func TestMoods(t *testing.T) {
	rec := history.NewRecorder(nil)
	r := listen(t, rec)
	r.Behave(Mood{Answer: http.StatusTooManyRequests, RetryAfter: 2 * time.Second})
	resp, _, err := deliver(t, r.URL, "t")
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("%+v, %v", resp, err)
	}
	r.Behave(Mood{Reply: 1 << 20})
	if resp, n, err := deliver(t, r.URL, "t"); err != nil || resp.StatusCode != http.StatusOK || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Behave(Mood{Slow: 20 * time.Millisecond, Answer: receiver.Reset})
	if _, _, err := deliver(t, r.URL, "t"); err == nil {
		t.Error("the connection was not reset")
	}
	r.Behave(Mood{})
	if resp, n, err := deliver(t, r.URL, "t"); err != nil || resp.StatusCode != http.StatusOK || n != 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Behave(Mood{Path: "/other", Answer: http.StatusUnprocessableEntity})
	if resp, _, err := deliver(t, r.URL+"/other", "t"); err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%+v, %v", resp, err)
	}
	if resp, _, err := deliver(t, r.URL+"/healthy", "t"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%+v, %v", resp, err)
	}
	var answers []int
	for _, a := range rec.History().Arrivals {
		answers = append(answers, a.Answer)
	}
	assert.EqualSlices(t, answers, []int{429, 200, 0, 200, 422, 200}, "recorded")
}

// TestStrangers checks that deliveries of a former run's tasks are not recorded as the present run's.
func TestStrangers(t *testing.T) {
	before, now := history.NewRecorder(nil), history.NewRecorder(nil)
	r := listen(t, before)
	r.Record(now, "r2-")
	for _, id := range []string{"r1-7", "r2-7"} {
		_, _, err := deliver(t, r.URL, id)
		assert.NoError(t, err)
	}
	if a := now.History().Arrivals; len(a) != 1 || a[0].ID != "r2-7" || len(before.History().Arrivals) != 0 {
		t.Errorf("%+v", a)
	}
	assert.EqualSlices(t, r.Strangers(), []string{"r1-7"})
}
