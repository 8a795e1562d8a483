package imports_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node/nodetest"
)

// read returns the records of a source, one a line.
func read(t *testing.T, s imports.Source) []string {
	t.Helper()
	var list []string
	for r, err := range s.Records(t.Context()) {
		assert.NoError(t, err)
		text := "! " + fmt.Sprint(r.Err)
		if r.Err == nil && r.Schedule != nil {
			s := r.Schedule
			text = fmt.Sprintf("%s %s %q %s %s", s.Repeat.Cron, s.Repeat.TimeZone, s.Note, s.Task.Queue, s.Task.Payload)
		} else if r.Err == nil {
			task := &r.Task
			text = fmt.Sprintf("%s %s %s %s%s%s", task.ID, task.FireAt.Format(time.RFC3339Nano), task.Queue, task.Payload,
				task.PayloadBytes, task.ContentType)
		}
		list = append(list, r.Key+": "+text)
	}
	return list
}

func TestNDJSON(t *testing.T) {
	in := `{"id": "a", "fire_at": "2030-01-01T10:00:00+01:00", "payload": {"n":  1}, "queue": "own"}

{"id": "b", "fire_at": "2030-01-01T09:00:00.0001Z", "target": {"url": "http://x/"}, "retry": {"max_attempts": 3}}
{"id": "c", "delay": "1h"}
{"fire_at": "2030-01-01T10:00:00Z"}
{"id": "d", "fire_at": "2030-01-01T10:00:00Z", "jitter": "1m"}
{"id": "e", "fire_at": "2030-01-01T10:00:00Z", "paylod": 1}
{"id": "f", "fire_at": "2030-01-01T10:00:00Z", "retry": {"max_atempts": 1}}
{"id": "g", "fire_at": "2030-01-01T10:00:00Z", "state": "scheduled"}
{"id": "h", "fire_at": "soon"}
no json
` + strings.Repeat("x", 2<<20) + `
{"id": "z", "fire_at": "2030-01-01T10:00:00Z", "payload_base64": "aGk=", "content_type": "text/plain"}
{"id": "y", "fire_at": "2030-01-01T10:00:00Z", "on_dead": {"on_dead": {"dely": "1h"}}}`
	got := read(t, imports.NDJSON{In: strings.NewReader(in), Prefix: "p-", Queue: "other"})
	want := []string{
		`line 1: p-a 2030-01-01T09:00:00Z own {"n":  1}`,
		`line 3: p-b 2030-01-01T09:00:00.001Z other `,
		"line 4: ! fire_at is missing: a delay would count from each import anew",
		"line 5: ! id is missing: without it a repeated import would schedule the task again",
		"line 6: ! jitter changes the due time by which a repeated import finds the task: give the final fire_at",
		"line 7: ! paylod is not a field that is known",
		"line 8: ! retry.max_atempts is not a field that is known",
		"line 9: ! state is set by the service and cannot be sent",
		"line 10: ! ", "line 11: ! ", "line 12: ! the line is too long (limit 1048576 bytes)",
		"line 13: p-z 2030-01-01T10:00:00Z other hitext/plain",
		"line 14: ! dely is not a field that is known",
	}
	assert.MustEqual(t, len(got), len(want), "%s", strings.Join(got, "\n"))
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
}

func TestCSV(t *testing.T) {
	in := "job,run_at,queue,note\n" +
		"1,2030-01-01T10:00:00Z,mails,\"a \"\"quoted\"\" one\"\n" +
		"2,1893492000,,x\n" +
		"3,1893492000123,,x\n" +
		"4,later,,x\n" +
		"5,1893492000\n" +
		",1893492000,,x\n" +
		"6,1893492000,\"wrong\"quote,x\n" +
		"7,1893492000.5,,x\n"
	s := imports.CSV{In: strings.NewReader(in), Columns: map[string]string{"id": "job", "due": "run_at", "payload": "note"}, Queue: "q"}
	assert.EqualSlices(t, read(t, s), []string{
		`line 2: 1 2030-01-01T10:00:00Z mails a "quoted" onetext/plain; charset=utf-8`,
		"line 3: 2 2030-01-01T10:00:00Z q xtext/plain; charset=utf-8",
		"line 4: 3 2030-01-01T10:00:00.123Z q xtext/plain; charset=utf-8",
		`line 5: ! due: "later" is neither an instant, like 2026-11-21T10:00:00Z, nor Unix time`,
		"line 6: ! wrong number of fields",
		"line 7: ! id is missing: without it a repeated import would schedule the task again",
		"line 8: ! extraneous or missing \" in quoted-field",
		"line 9: 7 2030-01-01T10:00:00.5Z q xtext/plain; charset=utf-8",
	})
	s = imports.CSV{In: strings.NewReader("id,due,a\n1,0,x\n"), Unit: imports.Milliseconds}
	assert.EqualSlices(t, read(t, s), []string{`line 2: 1 1970-01-01T00:00:00Z  {"a":"x","due":"0","id":"1"}`})

	for header, columns := range map[string]map[string]string{
		"id,when": nil, "id,due": {"payload": "body"}, "id,due,x": {"paylod": "x"}, "": nil,
	} {
		s := imports.CSV{In: strings.NewReader(header + "\n"), Columns: columns}
		for _, err := range s.Records(t.Context()) {
			assert.Error(t, err, "%s", header)
		}
	}
}

func TestCrontab(t *testing.T) {
	in := `# jobs
MAILTO = "root"
30 2 * * *   backup  --all
@daily echo 100\% > x
CRON_TZ=Europe/Berlin
*/5 9-17 * * MON-FRI mail -s hi root%Hello%100\% sure

@reboot start
5 4 * * *
`
	got := read(t, imports.Crontab{In: strings.NewReader(in), Queue: "jobs"})
	assert.EqualSlices(t, got, []string{
		`line 3: [30 2 * * *]  "backup  --all" jobs {"command":"backup  --all","environment":{"MAILTO":"root"}}`,
		`line 4: [@daily]  "echo 100% > x" jobs {"command":"echo 100% \u003e x","environment":{"MAILTO":"root"}}`,
		`line 6: [*/5 9-17 * * MON-FRI] Europe/Berlin "mail -s hi root" jobs ` +
			`{"command":"mail -s hi root","stdin":"Hello\n100% sure","environment":{"MAILTO":"root"}}`,
		"line 8: ! @reboot has no counterpart: a schedule belongs to no machine",
		"line 9: ! the line has no command behind its time",
	})
	got = read(t, imports.Crontab{In: strings.NewReader("17 * * * *\troot  run-parts /etc"), System: true, TimeZone: "Asia/Tokyo"})
	assert.EqualSlices(t, got, []string{
		`line 1: [17 * * * *] Asia/Tokyo "run-parts /etc"  {"command":"run-parts /etc","user":"root"}`,
	})
}

// A crontab becomes schedules once. A line that the cluster cannot read is refused, and a schedule that was changed is
// a conflict.
func TestCrontabOnNode(t *testing.T) {
	onNode(t, func(t *testing.T, c *client.Client, _ *nodetest.Cluster) {
		const table = "30 2 * * * backup\n@hourly poll\n61 * * * * never\n"
		source := func() imports.Source {
			return imports.Crontab{In: strings.NewReader(table), Queue: "jobs", Prefix: "cron-"}
		}
		var named troubles
		totals, err := imports.Run(t.Context(), source(), c, imports.Options{Verify: true, Report: named.add})
		assert.NoError(t, err)
		assert.Equal(t, *totals.Verified, imports.Verification{Same: 2})
		totals.Verified = nil
		assert.Equal(t, totals, imports.Totals{Read: 3, Scheduled: 2, Refused: 1})
		assert.Contains(t, named.text(), "line 3")

		for s, err := range c.Schedules(t.Context(), client.ScheduleFilter{}) {
			assert.NoError(t, err)
			if s.Note == "poll" {
				_, err := c.PatchSchedule(t.Context(), s.ID, client.SchedulePatch{Repeat: &client.Repeat{TimeZone: "Asia/Tokyo"}})
				assert.NoError(t, err)
			}
		}
		totals, err = imports.Run(t.Context(), source(), c, imports.Options{})
		assert.NoError(t, err)
		assert.Equal(t, totals, imports.Totals{Read: 3, Existing: 1, Conflicts: 1, Refused: 1})
		totals, err = imports.Check(t.Context(), source(), c, named.add)
		assert.NoError(t, err)
		assert.Equal(t, *totals.Verified, imports.Verification{Same: 1, Missing: 1, Different: 1})
	})
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]string{
		"1700000000": "2023-11-14T22:13:20Z", "1700000000123": "2023-11-14T22:13:20.123Z",
		"1700000000.123": "2023-11-14T22:13:20.123Z", "1700000000.1231": "2023-11-14T22:13:20.124Z",
		"1.7e9": "2023-11-14T22:13:20Z", "0": "1970-01-01T00:00:00Z",
		"-1": "", "NaN": "", "inf": "", "9e99": "", "": "",
	} {
		at, err := imports.Auto.Parse(text)
		got := at.Format(time.RFC3339Nano)
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
