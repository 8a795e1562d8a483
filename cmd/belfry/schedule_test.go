package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

const somePreview = `{"occurrences":[{"at":"2027-03-28T01:00:00.000Z","local":"2027-03-28T03:00:00.000+02:00",` +
	`"clock_change":"gap","wall":"2027-03-28T02:30:00"},{"at":"2027-10-31T00:30:00.500Z",` +
	`"local":"2027-10-31T02:30:00.500+02:00","clock_change":"first"}],"excluded":[{"at":"2027-03-29T00:30:00.000Z",` +
	`"local":"2027-03-29T02:30:00.000+02:00","except":"2027-03-29"}],"ended":true,"time_zone":"Europe/Berlin",` +
	`"tz_data":"2025c"}`

// The flags make a rule, and the answer is listed in the order of its instants.
func TestSchedulePreview(t *testing.T) {
	a := serveKeys(t, 200, somePreview)
	out, _, err := ran(t, "schedule", "preview", "--cron", "30 2 * * *", "--cron", "@daily", "--zone", "Europe/Berlin",
		"--except", "2027-03-29", "--start", "2027-03-28T00:00:00Z", "--count", "2", "--next", "5", "--addr", a.url)
	assert.NoError(t, err)
	want := `{"next":5,"repeat":{"count":2,"cron":["30 2 * * *","@daily"],"except":["2027-03-29"],` +
		`"start":"2027-03-28T00:00:00Z","time_zone":"Europe/Berlin"}}`
	if a.uri != "POST /v1/preview" || a.body != want {
		t.Errorf("sent %s %s", a.uri, a.body)
	}
	want = `Sun 2027-03-28 03:00:00 +02:00    the clock skips 02:30:00
Mon 2027-03-29 02:30:00 +02:00    left out by 2027-03-29
Sun 2027-10-31 02:30:00.5 +02:00  the first of two
no further occurrence
Europe/Berlin, time zones of 2025c
`
	if out != want {
		t.Errorf("printed\n%s", out)
	}
	out, _, err = ran(t, "schedule", "preview", "--every", "15m", "--json", "--addr", a.url)
	if err != nil || a.body != `{"repeat":{"every":"15m"}}` || out == "" {
		t.Errorf("%v, sent %s, printed %s", err, a.body, out)
	}
}

const scheduleJSON = `{"id":"report","repeat":{"cron":["0 9 * * MON-FRI","0 12 * * SAT"],"time_zone":"Europe/Berlin",
	"except":["2027-01-01"],"jitter":"30s"},"misfire":"all","misfire_window":"2h","overlap":"queue_one","paused":false,
	"note":"for the board","task":{"queue":"reports","payload":{"n": 1},"target":{"url":"http://x/"},
	"labels":{"k":"v"}},"last":7,"next_at":null,"running":[5,6],"waiting":[7],"started":5,"passed":2,"ended":false,
	"revision":8841,"shard":3,"created_at":"2026-11-21T10:00:00.000Z","tz_data":"2025c"}`

const occurrencesJSON = `{"next":[{"number":8,"due":"2000-03-26T01:00:07.500Z","scheduled":"2000-03-26T01:00:00.000Z",
	"local":"2000-03-26T03:00:00.000+02:00","clock_change":"gap"}],"last":[{"number":2,"count":3,
	"scheduled":"2000-01-01T00:00:00.000Z","origin":"rule","state":"passed","why":"coalesced"},{"number":5,
	"scheduled":"2000-01-02T00:00:00.000Z","origin":"call","state":"dead","began_at":"2000-01-02T00:00:01.000Z",
	"late":"1s","attempts":3,"error":"no room","ended_at":"2000-01-02T00:01:00.000Z"}]}`

// serveSchedules answers calls about schedules, and keeps the last request that changes one.
func serveSchedules(t *testing.T, status int, answer string) *served {
	t.Helper()
	s := &served{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/occurrences") {
			s.read = r.RequestURI
			_, _ = io.WriteString(w, occurrencesJSON)
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.method, s.uri, s.body, s.key = r.Method, r.RequestURI, string(body), r.Header.Get("Idempotency-Key")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// The flags of a rule, of a policy and of a task make a schedule. The answer is shown with its coming occurrences.
func TestSchedulePut(t *testing.T) {
	s := serveSchedules(t, 201, scheduleJSON)
	out, code := belfry(t, "schedule", "put", "report", "--cron", "0 9 * * MON-FRI", "--cron", "0 12 * * SAT", "--zone",
		"Europe/Berlin", "--except", "2027-01-01", "--jitter", "30s", "--misfire", "all", "--misfire-window", "2h",
		"--overlap", "queue_one", "--note", "for the board", "--paused", "-q", "reports", "--payload", `{"n": 1}`,
		"--url", "http://x/", "--label", "k=v", "--max-attempts", "3", "--key", "k1", "--addr", s.url)
	want := `{"repeat":{"cron":["0 9 * * MON-FRI","0 12 * * SAT"],"except":["2027-01-01"],"jitter":"30s",` +
		`"time_zone":"Europe/Berlin"},"misfire":"all","misfire_window":"2h","overlap":"queue_one","paused":true,` +
		`"note":"for the board","task":{"queue":"reports","payload":{"n": 1},"target":{"url":"http://x/"},` +
		`"retry":{"max_attempts":3},"labels":{"k":"v"}}}`
	if s.method != "PUT" || s.uri != "/v1/schedules/report" || s.body != want || s.key != "k1" {
		t.Errorf("sent %+v\nwant %s", s, want)
	}
	want = `id           report
state        active
note         for the board
cron         0 9 * * MON-FRI
cron         0 12 * * SAT
time zone    Europe/Berlin
except       2027-01-01
jitter       30s
misfire      all, not after 2h
overlap      queue_one
queue        reports
target       http://x/
labels       k=v
payload      {"n": 1}
last         7
running      5 6
waiting      7
started      5
passed over  2
shard        3
revision     8841
next         Sun 2000-03-26 03:00:00 +02:00; the clock skips its time; 7.5s later by its jitter
`
	if code != 0 || out != want || s.read != "/v1/schedules/report/occurrences?last=0&next=3" {
		t.Errorf("%d, read %s, printed\n%s", code, s.read, out)
	}
}

// With --json a put prints the schedule alone, and reads no occurrences.
func TestSchedulePutAsJSON(t *testing.T) {
	s := serveSchedules(t, 201, scheduleJSON)
	out, code := belfry(t, "schedule", "put", "a", "--every", "15m", "--json", "--addr", s.url)
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"revision":8841`) || s.read != "" {
		t.Errorf("%d %s\n%s", code, s.read, out)
	}
	assert.Equal(t, s.body, `{"repeat":{"every":"15m"},"paused":false,"task":{}}`, "sent")
}

// With --if-absent, an existing schedule is a success.
func TestSchedulePutIfAbsent(t *testing.T) {
	s := serveSchedules(t, 412, `{"type":"urn:belfry:problem:precondition-failed","status":412,"schedule":`+scheduleJSON+`}`)
	out, code := belfry(t, "schedule", "put", "report", "--every", "1h", "--if-absent", "--addr", s.url)
	if code != 0 || !strings.HasPrefix(out, "schedule report is there already (active): nothing was changed\n") ||
		!strings.Contains(out, "revision     8841") {
		t.Errorf("%d\n%s", code, out)
	}
	if out, code := belfry(t, "schedule", "put", "report", "--every", "1h", "--addr", s.url); code != exitFailed {
		t.Errorf("%d\n%s", code, out)
	}
}

// A put whose schedule is stored succeeds, also if the coming occurrences cannot be read.
func TestSchedulePutWithoutOccurrences(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, scheduleJSON)
	}))
	t.Cleanup(server.Close)
	out, notes, err := ran(t, "schedule", "put", "report", "--every", "1h", "--addr", server.URL)
	if err != nil || !strings.Contains(out, "revision") ||
		!strings.Contains(notes, "the schedule is stored; its coming occurrences are not known: ") {
		t.Errorf("%v\n%s%s", err, out, notes)
	}
}

// Each verb makes its call, and prints the answer.
func TestScheduleVerbs(t *testing.T) {
	fired := `{"id":"report@8","number":8,"schedule":` + scheduleJSON + `}`
	for _, tt := range []struct{ args, answer, sent, body, want string }{
		{"show report", scheduleJSON, "GET /v1/schedules/report", "", "note         for the board\n"},
		{"delete report --yes", scheduleJSON, "DELETE /v1/schedules/report", "", "report is deleted\n"},
		{"pause report --note later", scheduleJSON, "POST /v1/schedules/report/pause", `{"note":"later"}`, "state"},
		{"resume report", scheduleJSON, "POST /v1/schedules/report/resume", "", "state        active\n"},
		{"fire report", fired, "POST /v1/schedules/report/fire", "", "occurrence   report@8\n"},
		{"skip report", scheduleJSON, "POST /v1/schedules/report/skip", "", "passed over  2\n"},
		{"backfill report --from 2026-11-20T00:00:00Z --to 2026-11-21T01:00:00+01:00", scheduleJSON,
			"POST /v1/schedules/report/backfill", `{"from":"2026-11-20T00:00:00Z","to":"2026-11-21T00:00:00Z"}`,
			"waiting      7\n"},
	} {
		s := serveSchedules(t, 200, tt.answer)
		out, code := belfry(t, append(strings.Fields("schedule "+tt.args), "--addr", s.url)...)
		if code != 0 || !strings.Contains(out, tt.want) || s.method+" "+s.uri != tt.sent || s.body != tt.body {
			t.Errorf("belfry schedule %s: %d, sent %+v\n%s", tt.args, code, s, out)
		}
		assert.Equal(t, s.key == "", s.method == "GET", "belfry schedule %s: the key is %q", tt.args, s.key)
		out, code = belfry(t, append(strings.Fields("schedule "+tt.args), "--json", "--addr", s.url)...)
		if code != 0 || strings.Count(out, "\n") != 1 || !json.Valid([]byte(out)) {
			t.Errorf("belfry schedule %s --json: %d\n%s", tt.args, code, out)
		}
	}
}

func TestScheduleOccurrences(t *testing.T) {
	s := serveSchedules(t, 200, "")
	out, code := belfry(t, "schedule", "occurrences", "report", "--next", "1", "--last", "0", "--addr", s.url)
	out = regexp.MustCompile(`, \d+d ago`).ReplaceAllString(out, "")
	want := `NUMBER  STATE   SCHEDULED                 ATTEMPTS  NOTE
2-4     passed  2000-01-01 00:00:00 UTC            missed in an outage, and a later one stands for it
5       dead    2000-01-02 00:00:00 UTC  3         by call; 1s late; no room
8       coming  2000-03-26 01:00:00 UTC            Sun 2000-03-26 03:00:00 +02:00; the clock skips its time; ` +
		"7.5s later by its jitter\n"
	if squeezed(out) != squeezed(want) || code != 0 || s.read != "/v1/schedules/report/occurrences?last=0&next=1" {
		t.Errorf("%d %s\n%s", code, s.read, out)
	}
	out, code = belfry(t, "schedule", "occurrences", "report", "--json", "--addr", s.url)
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"late":"1s"`) ||
		s.read != "/v1/schedules/report/occurrences?last=10&next=10" {
		t.Errorf("%d %s\n%s", code, s.read, out)
	}
}

// squeezed returns a table with its columns one space apart.
func squeezed(table string) string { return regexp.MustCompile(` +`).ReplaceAllString(table, " ") }

func TestScheduleList(t *testing.T) {
	s := serveSchedules(t, 200, `{"schedules":[`+scheduleJSON+`,{"id":"poll","repeat":{"every":"15m"},"paused":true},
		{"id":"once","repeat":{"every":"1h"},"ended":true}],"next_cursor":""}`)
	out, code := belfry(t, "schedule", "list", "-q", "reports", "--prefix", "r", "-l", "k=v", "-n", "5", "--addr", s.url)
	want := `ID      STATE   NEXT  RULE                                            RUNNING  WAITING  QUEUE
report  active        0 9 * * MON-FRI and 0 12 * * SAT Europe/Berlin  2        1        reports
poll    paused        every 15m                                       0        0
once    ended         every 1h                                        0        0
`
	if code != 0 || out != want || s.uri != "/v1/schedules?label=k%3Av&limit=5&order=due&prefix=r&queue=reports" {
		t.Errorf("%d %s\n%s", code, s.uri, out)
	}
	out, code = belfry(t, "schedule", "list", "-n", "2", "--json", "--addr", s.url)
	assert.Equal(t, strings.Count(out, "\n"), 2, "%d\n%s", code, out)
	s = serveSchedules(t, 200, `{"schedules":[],"next_cursor":""}`)
	out, code = belfry(t, "schedule", "list", "--order", "id", "--addr", s.url)
	if code != 0 || s.uri != "/v1/schedules?limit=100&order=id" {
		t.Errorf("%d %s\n%s", code, s.uri, out)
	}
	if out, code = belfry(t, "schedule", "list", "--addr", s.url); code != 0 || out != "no schedule was found\n" {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestScheduleIsNotFound(t *testing.T) {
	s := serveSchedules(t, 404, `{"type":"urn:belfry:problem:schedule-not-found","status":404}`)
	out, code := belfry(t, "schedule", "show", "a", "--addr", s.url)
	assert.Equal(t, code, exitNotFound, "%s", out)
}

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
