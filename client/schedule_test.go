package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// scheduleText is a schedule as the service writes it. Its payload must not change in any byte.
const scheduleText = `{"id":"report","repeat":{"cron":["0 9 * * MON-FRI"],"time_zone":"Europe/Berlin",` +
	`"end":"2027-01-01T00:00:00.000Z","jitter":"30s"},"misfire":"all","misfire_window":"2h","overlap":"queue_one",` +
	`"paused":true,"note":"until the migration ends","task":{"queue":"reports","payload":{"n": "<1>"},` +
	`"target":{"url":"http://x/","timeout":"20s"},"labels":{"tenant":"acme"}},"last":7,` +
	`"next_at":"2026-11-26T08:00:00.000Z","running":[6],"waiting":[7],"started":5,"passed":2,"ended":false,` +
	`"revision":8841,"shard":3,"created_at":"2026-11-21T10:00:00.000Z","tz_data":"2025c","to_come":{"x":[1]}}`

var scheduleValue = Schedule{
	ID: "report",
	Repeat: Repeat{Cron: []string{"0 9 * * MON-FRI"}, TimeZone: "Europe/Berlin", Jitter: 30 * time.Second,
		End: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
	Misfire: MisfireAll, MisfireWindow: 2 * time.Hour, Overlap: OverlapQueueOne, Paused: true,
	Note: "until the migration ends",
	Task: Task{Queue: "reports", Payload: json.RawMessage(`{"n": "<1>"}`), Labels: map[string]string{"tenant": "acme"},
		Target: &Target{URL: "http://x/", Timeout: 20 * time.Second}},
	ScheduleStatus: ScheduleStatus{
		Last: 7, NextAt: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC), Running: []uint64{6}, Waiting: []uint64{7},
		Started: 5, Passed: 2, Revision: 8841, Shard: 3, CreatedAt: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		TZData: "2025c",
	},
}

// TestPutSchedule checks that a put sends the settings only, the payload byte for byte, and returns the whole answer
// but for members that this version does not know.
func TestPutSchedule(t *testing.T) {
	c, s := start(t, Config{}, answer(201, scheduleText))
	got, err := c.PutSchedule(t.Context(), scheduleValue, WithKey("k"), IfRevision(8840))
	if err != nil || !reflect.DeepEqual(*got, scheduleValue) {
		t.Fatalf("%+v %v\nwant %+v", got, err, scheduleValue)
	}
	want := `{"repeat":{"cron":["0 9 * * MON-FRI"],"end":"2027-01-01T00:00:00Z","jitter":"30s",` +
		`"time_zone":"Europe/Berlin"},"misfire":"all","misfire_window":"2h","overlap":"queue_one","paused":true,` +
		`"note":"until the migration ends","task":{"queue":"reports","payload":{"n": "<1>"},"target":{"url":"http://x/",` +
		`"timeout":"20s"},"labels":{"tenant":"acme"}}}`
	sent := s.requests()[0]
	if sent.method != http.MethodPut || sent.uri != "/v1/schedules/report" || sent.body != want || sent.key != "k" ||
		sent.header.Get("If-Match") != `"8840"` || sent.header.Get("Content-Type") != jsonType {
		t.Errorf("sent %+v\nwant %s", sent, want)
	}
}

// TestScheduleWithLittle checks that a schedule with a rule only leaves all defaults to the service.
func TestScheduleWithLittle(t *testing.T) {
	c, s := start(t, Config{}, answer(201, `{"id":"a","next_at":null,"task":{"queue":"default"},"note":""}`))
	got, err := c.PutSchedule(t.Context(), Schedule{ID: "a", Repeat: Repeat{Every: 15 * time.Minute}}, IfAbsent())
	if err != nil || got.ID != "a" || !got.NextAt.IsZero() || got.Task.Queue != "default" {
		t.Errorf("%+v %v", got, err)
	}
	sent := s.requests()[0]
	if sent.body != `{"repeat":{"every":"15m"},"paused":false,"task":{}}` || sent.header.Get("If-None-Match") != "*" {
		t.Errorf("sent %+v", sent)
	}
}

// TestScheduleIsWrittenAsRead checks that the JSON of a schedule has the same meaning as the service's.
func TestScheduleIsWrittenAsRead(t *testing.T) {
	text, err := json.Marshal(scheduleValue)
	var again Schedule
	if err != nil || json.Unmarshal(text, &again) != nil {
		t.Fatalf("%s %v", text, err)
	}
	again.Task.Payload = scheduleValue.Task.Payload // json.Marshal compacts it
	if !reflect.DeepEqual(again, scheduleValue) {
		t.Errorf("%s\n%+v", text, again)
	}
	want := strings.Replace(scheduleText, `,"to_come":{"x":[1]}`, "", 1)
	want = strings.ReplaceAll(want, ".000Z", "Z")
	assert.Equal(t, same(text, []byte(want)), nil)
}

// TestTaskOfAScheduleHasNoTime checks that a schedule is not sent if its task has an id or a time of its own.
func TestTaskOfAScheduleHasNoTime(t *testing.T) {
	c, s := start(t, Config{})
	for _, task := range []Task{
		{ID: "a"}, {FireAt: time.Unix(1, 0)}, {Delay: time.Second}, {Jitter: time.Second}, {Payload: []byte("{")},
	} {
		_, putErr := c.PutSchedule(t.Context(), Schedule{ID: "s", Task: task})
		_, patchErr := c.PatchSchedule(t.Context(), "s", SchedulePatch{Task: &task})
		if putErr == nil || patchErr == nil || len(s.requests()) > 0 {
			t.Errorf("sent %+v: %v, %v", task, putErr, patchErr)
		}
	}
}

func TestPatchSchedule(t *testing.T) {
	for want, patch := range map[string]SchedulePatch{
		`{}`: {},
		`{"misfire":"skip","misfire_window":"1h","note":"n","overlap":"allow","paused":false}`: {
			Misfire: MisfireSkip, MisfireWindow: time.Hour, Note: "n", Overlap: OverlapAllow, Paused: new(bool)},
		`{"note":null,"repeat":{"cron":["@daily"],"every":null}}`: {
			Repeat: &Repeat{Cron: []string{"@daily"}}, Clear: []string{"note", "repeat.every"}},
		`{"paused":true,"task":{"expires_after":"1h","labels":{"a":null},"retry":{"max_attempts":null},` +
			`"target":{"url":"http://x/"},"payload":{"n": "<1>"}}}`: {
			Paused: &[]bool{true}[0], Clear: []string{"task.retry.max_attempts"}, Task: &Task{ExpiresAfter: time.Hour,
				Labels: map[string]string{"a": ""}, Target: &Target{URL: "http://x/"}, Payload: json.RawMessage(`{"n": "<1>"}`)}},
		`{"task":{"payload":1}}`:             {Task: &Task{Payload: json.RawMessage(`1`)}},
		`{"task":{"payload_base64":"AQ=="}}`: {Task: &Task{PayloadBytes: []byte{1}}},
		`{"task":{"target":null}}`:           {Clear: []string{"task.target"}},
	} {
		c, s := start(t, Config{}, answer(200, scheduleText))
		_, err := c.PatchSchedule(t.Context(), "a", patch, IfRevision(7))
		assert.NoError(t, err)
		got := s.requests()[0]
		if got.body != want || got.method != http.MethodPatch || got.key == "" || got.header.Get("If-Match") != `"7"` {
			t.Errorf("sent %+v\nwant %s", got, want)
		}
	}
	c, s := start(t, Config{})
	_, err := c.PatchSchedule(t.Context(), "a", SchedulePatch{
		Task: &Task{Target: &Target{URL: "http://x/"}}, Clear: []string{"task.target.url"}})
	if err == nil || !strings.Contains(err.Error(), "task.target.url is both set and cleared") || len(s.requests()) > 0 {
		t.Errorf("%v", err)
	}
	_, err = c.PatchSchedule(t.Context(), "a", SchedulePatch{
		Task: &Task{ContentType: "text/plain"}, Clear: []string{"task.content_type.x"}})
	if err == nil || !strings.Contains(err.Error(), "cannot be cleared while task.content_type is set") {
		t.Errorf("%v", err)
	}
}

// TestScheduleCalls checks the request of every further call about a schedule. Each changing one carries a key.
func TestScheduleCalls(t *testing.T) {
	c, s := start(t, Config{})
	s.exhaust = answer(200, scheduleText)
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	calls := []struct {
		want string
		make func() (*Schedule, error)
	}{
		{"GET /v1/schedules/a%2Fb ", func() (*Schedule, error) { return c.GetSchedule(t.Context(), "a/b") }},
		{"POST /v1/schedules/a/pause ", func() (*Schedule, error) { return c.PauseSchedule(t.Context(), "a", "") }},
		{`POST /v1/schedules/a/pause {"note":"n"}`, func() (*Schedule, error) {
			return c.PauseSchedule(t.Context(), "a", "n", IfRevision(7))
		}},
		{`POST /v1/schedules/a/resume {"note":"n"}`, func() (*Schedule, error) {
			return c.ResumeSchedule(t.Context(), "a", "n")
		}},
		{"POST /v1/schedules/a/skip ", func() (*Schedule, error) { return c.SkipOccurrence(t.Context(), "a") }},
		{`POST /v1/schedules/a/backfill {"from":"2026-11-01T00:00:00+01:00","to":"2026-11-01T01:00:00+01:00"}`,
			func() (*Schedule, error) { return c.Backfill(t.Context(), "a", from, from.Add(time.Hour)) }},
		{"DELETE /v1/schedules/a ", func() (*Schedule, error) { return nil, c.DeleteSchedule(t.Context(), "a") }},
	}
	for i, call := range calls {
		got, err := call.make()
		if err != nil || got != nil && !reflect.DeepEqual(*got, scheduleValue) {
			t.Errorf("%s: %+v %v", call.want, got, err)
		}
		sent := s.requests()[i]
		assert.Equal(t, sent.method+" "+sent.uri+" "+sent.body, call.want, "sent")
		assert.Equal(t, sent.key == "", sent.method == http.MethodGet, "%s has the key %q", call.want, sent.key)
	}
	assert.Equal(t, s.requests()[2].header.Get("If-Match"), `"7"`, "the pause has the condition")
}

func TestFireSchedule(t *testing.T) {
	c, s := start(t, Config{}, answer(201, `{"id":"report@8","number":8,"schedule":`+scheduleText+`}`),
		answer(409, `{"type":"urn:belfry:problem:wrong-state","status":409,"detail":"occurrence 7 runs"}`))
	got, err := c.FireSchedule(t.Context(), "report")
	if err != nil || got.ID != "report@8" || got.Number != 8 || !reflect.DeepEqual(got.Schedule, scheduleValue) {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := c.FireSchedule(t.Context(), "report"); !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
	if sent := s.requests()[0]; sent.method+sent.uri != "POST/v1/schedules/report/fire" || sent.key == "" {
		t.Errorf("sent %+v", sent)
	}
}

// TestScheduleCallsAreRepeated checks that a changing call keeps its key in a repeat.
func TestScheduleCallsAreRepeated(t *testing.T) {
	c, s := start(t, Config{}, answer(503, `{"committed":"no"}`), hangUp, answer(200, scheduleText))
	_, err := c.SkipOccurrence(t.Context(), "a")
	assert.NoError(t, err)
	got := s.requests()
	if len(got) < 3 || got[0].key == "" || got[0].key != got[len(got)-1].key {
		t.Errorf("%+v", got)
	}
}

func TestSchedulesArePaged(t *testing.T) {
	c, s := start(t, Config{}, answer(200, `{"schedules":[{"id":"a"},{"id":"b"}],"next_cursor":"x"}`),
		answer(200, `{"schedules":[],"next_cursor":"y"}`), answer(200, `{"schedules":[{"id":"c"}],"next_cursor":""}`))
	var ids []string
	filter := ScheduleFilter{Prefix: "p", Queue: "q", Labels: map[string]string{"k": "v"}, PageSize: 2}
	for schedule, err := range c.Schedules(t.Context(), filter) {
		assert.NoError(t, err)
		ids = append(ids, schedule.ID)
	}
	sent := s.requests()
	if fmt.Sprint(ids) != "[a b c]" || sent[0].uri != "/v1/schedules?label=k%3Av&limit=2&prefix=p&queue=q" ||
		sent[2].uri != "/v1/schedules?cursor=y&label=k%3Av&limit=2&prefix=p&queue=q" {
		t.Errorf("%v of %+v", ids, sent)
	}
	c, _ = start(t, Config{}, answer(200, `{"schedules":[{"id":"a"}],"next_cursor":"x"}`), answer(404, ""))
	n, last := 0, error(nil)
	for _, err := range c.Schedules(t.Context(), ScheduleFilter{}) {
		n, last = n+1, err
	}
	if n != 2 || last == nil {
		t.Errorf("%d, and the last error is %v", n, last)
	}
}

func TestOccurrences(t *testing.T) {
	c, s := start(t, Config{}, answer(200, `{"next":[{"number":8,"due":"2027-03-28T01:00:07.000Z",
		"scheduled":"2027-03-28T01:00:00.000Z","local":"2027-03-28T03:00:00.000+02:00","clock_change":"gap"}],
		"last":[{"number":3,"count":4,"scheduled":"2026-11-21T10:00:00.000Z","origin":"rule","state":"passed",
		"why":"coalesced"},{"number":7,"scheduled":"2026-11-22T10:00:00.000Z","origin":"call","state":"dead",
		"began_at":"2026-11-22T10:00:01.500Z","late":"1.5s","attempts":3,"error":"no","ended_at":"2026-11-22T10:01:00.000Z",
		"to_come":1}]}`))
	got, err := c.Occurrences(t.Context(), "a", 1, 2)
	if err != nil || len(got.Next) != 1 || len(got.Last) != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	next, passed, dead := got.Next[0], got.Last[0], got.Last[1]
	_, offset := next.Local.Zone()
	if next.Number != 8 || next.Due.Second() != 7 || offset != 7200 || next.Change != ChangeGap {
		t.Errorf("%+v", next)
	}
	if passed.Number != 3 || passed.Count != 4 || passed.Why != PassedCoalesced || passed.State != OccurrencePassed {
		t.Errorf("%+v", passed)
	}
	if dead.Origin != OriginCall || dead.State != OccurrenceDead || dead.Late != 1500*time.Millisecond ||
		dead.Attempts != 3 || dead.Error != "no" || dead.EndedAt.Minute() != 1 {
		t.Errorf("%+v", dead)
	}
	text, err := json.Marshal(dead)
	if err != nil || string(text) != `{"number":7,"scheduled":"2026-11-22T10:00:00Z","origin":"call","state":"dead",`+
		`"began_at":"2026-11-22T10:00:01.5Z","attempts":3,"error":"no","ended_at":"2026-11-22T10:01:00Z","late":"1.5s"}` {
		t.Errorf("%s %v", text, err)
	}
	assert.Equal(t, s.requests()[0].uri, "/v1/schedules/a/occurrences?last=2&next=1", "asked")
}

// TestScheduleCallsGoToTheLeader checks that calls about a schedule and about its occurrences go to the same leader.
func TestScheduleCallsGoToTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1")
		c := w.client(Config{Addrs: []string{"a:1"}})
		w.touchAll(c)
		learned()
		id := w.idIn(2, 0)
		_, err := c.GetSchedule(t.Context(), id)
		_, taskErr := c.Get(t.Context(), id+"@12")
		if err != nil || taskErr != nil {
			t.Fatal(err, taskErr)
		}
		if w.countRequests("GET b:1/v1/schedules/"+id) != 1 || w.countRequests("GET b:1/v1/tasks/"+id+"@12") != 1 {
			t.Errorf("asked %q", w.others)
		}
	})
}
