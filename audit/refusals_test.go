package audit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// Refusals of one source for one reason are recorded at once and then counted, so that a storm writes little. The
// record of a count has the parts that are the same in all.
func TestRefusalsAreCounted(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := open(t, dir, nil)
		refuse := func(from, route string) {
			l.Refuse(Record{
				From: from, Method: "GET", Route: route, Status: 401, Problem: "unauthenticated", Request: "r",
				Object: map[string]string{"id": "a"},
			})
		}
		for i := range 1000 {
			refuse("10.0.0.1", fmt.Sprint("/", i))
			refuse(fmt.Sprintf("2001:db8::%x", i+1), "/v6")
		}
		refuse("10.0.0.2", "/b")
		synctest.Wait()
		_, records := page(t, l, Query{})
		if routes(records) != "/0 /v6 /b" || records[0].Count != 0 || records[0].Request != "r" ||
			records[0].Object["id"] != "a" || records[1].From != "2001:db8::1" {
			t.Errorf("%+v", records)
		}
		time.Sleep(groupPeriod + 2*syncPeriod)
		synctest.Wait()
		_, records = page(t, l, Query{})
		assert.MustEqual(t, len(records), 5, "%+v", records)
		for _, r := range records[3:] {
			if r.Count != 999 || r.First == nil || r.Request != "" || r.Object != nil || r.Method != "GET" {
				t.Errorf("%+v", r)
			}
			if v6 := strings.Contains(r.From, ":"); v6 && (r.From != "2001:db8::/64" || r.Route != "/v6") ||
				!v6 && (r.From != "10.0.0.1" || r.Route != several) {
				t.Errorf("%+v", r)
			}
		}
		refuse("10.0.0.1", "/x")
		refuse("10.0.0.1", "/y")
		mustClose(t, l) // the count is written, without the end of its time
		l = open(t, dir, nil)
		defer mustClose(t, l)
		if _, records := page(t, l, Query{}); len(records) != 7 || records[5].Route != "/x" || records[6].Count != 1 {
			t.Errorf("%+v", records)
		}
	})
}

// Callers behind one address are counted apart if their credentials were accepted, and reasons are, too.
func TestRefusalsOfOneAddress(t *testing.T) {
	g := newGroups()
	for range 3 {
		for _, id := range []string{"", "k1", "k2"} {
			for _, status := range []int{401, 403} {
				g.add(Record{From: "10.0.0.1", Caller: Caller{ID: id}, Status: status, Problem: fmt.Sprint(status)})
			}
		}
	}
	due := g.take(false)
	assert.Equal(t, len(due), 6, "%+v", due)
	if ended := g.take(true); len(ended) != 6 || ended[0].Count != 2 {
		t.Errorf("%+v", ended)
	}
}

// Refusals from any number of addresses take a bounded memory and a bounded part of the files, and none is uncounted.
func TestRefusalsFromEverywhere(t *testing.T) {
	g := newGroups()
	const flood = 10 * MaxGroups
	for i := range flood {
		g.add(Record{From: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Route: "/a", Status: 401, Problem: "a"})
		g.add(Record{From: fmt.Sprintf("2001:db8:0:%x::1", i), Route: "/a", Status: 403, Problem: "b"})
	}
	due := g.take(false)
	if len(due) != MaxGroups+2 || len(g.now) != len(due) {
		t.Errorf("%d recorded, %d groups", len(due), len(g.now))
	}
	for _, r := range due[MaxGroups:] {
		if r.From != "" || r.Route != several || r.Problem == "" {
			t.Errorf("%+v", r)
		}
	}
	counted := len(due)
	for _, r := range g.take(true) {
		counted += r.Count
	}
	if counted != 2*flood {
		t.Errorf("%d of %d refusals are in the records", counted, 2*flood)
	}
}

// A flood of refusals turns its own files over and none of those of changes. Readers get both kinds by time.
func TestRefusalsDisplaceNoChange(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := open(t, t.TempDir(), func(c *Config) {
		c.FileBytes, c.Files, c.RefusalFiles = 1000, 2, 2
		c.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	defer func() { mustClose(t, l) }()
	change(t, l, Record{Route: "first"})
	for i := range 200 {
		l.Refuse(Record{Route: "refused", From: fmt.Sprintf("10.0.0.%d", i)})
	}
	change(t, l, Record{Route: "second"})
	cfg := l.cfg
	mustClose(t, l)
	var err error
	l, err = Open(cfg)
	assert.NoError(t, err)
	var all []Record
	q, pages := Query{Limit: 3}, 0
	for more := true; more; pages++ {
		p, records := page(t, l, q)
		all, q.After, more = append(all, records...), p.Next, p.More
	}
	text := routes(all)
	if strings.Count(text, "first") != 1 || !strings.HasSuffix(text, "refused second") || pages < 3 ||
		!strings.HasPrefix(text, "first refused refused") {
		t.Errorf("%d pages: %s", pages, text)
	}
	for i := range all[1:] {
		if all[i+1].Time.Before(all[i].Time.Time) {
			t.Errorf("%v after %v", all[i+1].Time, all[i].Time)
		}
	}
	if p, records := page(t, l, q); len(records) != 0 || p.Next != q.After {
		t.Errorf("%+v", p)
	}
	change(t, l, Record{Route: "later"})
	if p, records := page(t, l, q); routes(records) != "later" || lostIn(p) != 0 {
		t.Errorf("%s, %d lost", routes(records), lostIn(p))
	}
}
