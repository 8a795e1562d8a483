package tables

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/sqldb"
)

// readAll returns the records of a source, and the ends of their keys, those of claimed ones with a star.
func readAll(t *testing.T, s *Source) (records []imports.Record, keys string) {
	t.Helper()
	for record, err := range s.Records(t.Context()) {
		assert.NoError(t, err)
		assert.NoError(t, record.Err)
		records = append(records, record)
		keys += record.Key[strings.LastIndexByte(record.Key, ':')+1:] + map[bool]string{true: "* ", false: " "}[record.Claimed]
	}
	return records, keys
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:secret@127.0.0.1:1/d": "the database at 127.0.0.1:1: ",
		"mysql://u:secret@127.0.0.1:1/d":    "the database at 127.0.0.1:1: ",
		"mysql://127.0.0.1:1/d?tls=unknown": "the database at 127.0.0.1:1: ",
		"postgres://u:secret@127.0.0.1:1":   errURL.Error(),
		"oracle://u:secret@127.0.0.1:1/d":   "the database at 127.0.0.1:1: the URL of a database begins",
		"postgres://u:secret@%zz/d":         errURL.Error(),
	} {
		_, err := River(t.Context(), Options{URL: url})
		if text := fmt.Sprint(err); !strings.HasPrefix(text, want) || strings.Contains(text, "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, err := Quartz(t.Context(), Options{URL: "mysql://h/d", Table: "x; DROP TABLE y"})
	assert.ErrorIs(t, err, errTable)
}

func TestStatements(t *testing.T) {
	s := &Source{db: &sqldb.DB{}, o: Options{Table: "own"}}
	assert.Equal(t, s.statement("DELETE FROM {table} WHERE a = ?"), "DELETE FROM own WHERE a = ?")
}

func TestTriggers(t *testing.T) {
	number := func(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: true} }
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	simple := func(count, left, interval int64) trigger {
		return trigger{kind: "SIMPLE", state: "WAITING", count: number(count), left: number(left), interval: number(interval)}
	}
	cron := func(expression string) trigger {
		return trigger{kind: "CRON", state: "WAITING", cron: text(expression), zone: text("Asia/Tokyo"), end: number(1893499200000)}
	}
	with := func(t trigger, change func(*trigger)) trigger {
		change(&t)
		return t
	}
	for _, c := range []struct {
		trigger trigger
		want    string
	}{
		{simple(0, 0, 0), "task"},
		{simple(4, 0, 1000), "task"},
		{simple(4, 3, 1000), "[] 1s 4 2030-01-01T10:00:00Z  latest allow"},
		{simple(-1, -8, 1500), "[] 1.5s 0 2030-01-01T10:00:00Z  latest allow"},
		{simple(4, 3, 0), "! " + errAtOnce.Error()},
		{with(simple(-1, -1, 1000), func(t *trigger) { t.misfire, t.nonconcurrent = -1, true }),
			"[] 1s 0 2030-01-01T10:00:00Z  all queue_one"},
		{cron("0 0 9 ? * MON-FRI *"), "[0 0 9 ? * MON-FRI] 0s 0 2030-01-01T10:00:00Z Asia/Tokyo latest allow"},
		{cron("0 0 9 ? * 2-6,1#3"), "[0 0 9 ? * MON-FRI,SUN#3] 0s 0 2030-01-01T10:00:00Z Asia/Tokyo latest allow"},
		{cron("0 0 9 ? * 6L"), "[0 0 9 ? * FRIL] 0s 0 2030-01-01T10:00:00Z Asia/Tokyo latest allow"},
		{cron("0 0 9 ? * L"), "[0 0 9 ? * SAT] 0s 0 2030-01-01T10:00:00Z Asia/Tokyo latest allow"},
		{cron("0 0 9 L-3 * ?"), "[0 0 9 L-3 * ?] 0s 0 2030-01-01T10:00:00Z Asia/Tokyo latest allow"},
		{cron("0 0 9 1 1 ? 2031"), "! " + errYear.Error()},
		{with(cron("0 0 9 ? * 1"), func(t *trigger) { t.misfire = 2 }),
			"[0 0 9 ? * SUN] 0s 0 2030-01-01T10:00:00Z Asia/Tokyo skip allow"},
		{with(cron("0 0 9 ? * 1"), func(t *trigger) { t.calendar = text("holidays") }), "! " + errCalendar.Error()},
		{with(simple(0, 0, 0), func(t *trigger) { t.state = "PAUSED" }), "! the trigger is in the state PAUSED"},
		{with(simple(0, 0, 0), func(t *trigger) { t.state = "ACQUIRED" }), "gone"},
		{trigger{kind: "CAL_INT", state: "WAITING"}, "! " + errKind.Error()},
	} {
		c.trigger.next = 1893492000000
		r := imports.Record{Key: "quartz:x", Task: dueTask(time.UnixMilli(c.trigger.next), "class")}
		got := "task"
		switch err := c.trigger.convert(&r); {
		case errors.Is(err, imports.ErrGone):
			got = "gone"
		case err != nil:
			got = "! " + err.Error()
		case r.Schedule != nil:
			s := r.Schedule
			got = fmt.Sprintf("%s %v %d %s %s %s %s", s.Repeat.Cron, s.Repeat.Every, s.Repeat.Count,
				s.Repeat.Start.Format(time.RFC3339Nano), s.Repeat.TimeZone, misfireOf(string(s.Misfire)), s.Overlap)
			assert.Equal(t, s.Task.Labels[typeLabel], "class")
			assert.Equal(t, !s.Repeat.End.IsZero(), c.trigger.end.Valid)
		}
		assert.Equal(t, got, c.want)
	}
	assert.Equal(t, dataOf(nil), nil)
	assert.Equal(t, fmt.Sprint(dataOf([]byte("a=b"))), "a=b")
	assert.Equal(t, fmt.Sprint(dataOf([]byte("\xac\xed"))), "map[base64:[172 237]]")
}

func misfireOf(misfire string) string {
	if misfire == "" {
		return "latest"
	}
	return misfire
}
