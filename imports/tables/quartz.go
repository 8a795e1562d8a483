package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
)

// Quartz opens the triggers of Quartz. A simple trigger with one time left becomes a task. Other simple triggers and
// cron triggers become schedules.
func Quartz(ctx context.Context, o Options) (*Source, error) {
	const ofTrigger = " WHERE SCHED_NAME = ? AND TRIGGER_NAME = ? AND TRIGGER_GROUP = ?"
	const beside = " USING (SCHED_NAME, TRIGGER_NAME, TRIGGER_GROUP)"
	return open(ctx, o, format{
		table: "QRTZ_",
		columns: "SCHED_NAME, TRIGGER_NAME, TRIGGER_GROUP, TRIGGER_TYPE, TRIGGER_STATE, NEXT_FIRE_TIME, END_TIME, " +
			"CALENDAR_NAME, coalesce(MISFIRE_INSTR, 0), t.JOB_DATA, JOB_NAME, JOB_GROUP, JOB_CLASS_NAME, IS_NONCONCURRENT, " +
			"j.JOB_DATA, REPEAT_COUNT - TIMES_TRIGGERED, REPEAT_COUNT, REPEAT_INTERVAL, CRON_EXPRESSION, TIME_ZONE_ID",
		from: "{table}TRIGGERS t JOIN {table}JOB_DETAILS j USING (SCHED_NAME, JOB_NAME, JOB_GROUP) LEFT JOIN " +
			"{table}SIMPLE_TRIGGERS" + beside + " LEFT JOIN {table}CRON_TRIGGERS" + beside + " WHERE NEXT_FIRE_TIME > 0",
		order: "TRIGGER_STATE = 'BELFRY' DESC, NEXT_FIRE_TIME, SCHED_NAME, TRIGGER_GROUP, TRIGGER_NAME",
		read:  readQuartz,
		claim: "UPDATE {table}TRIGGERS SET TRIGGER_STATE = 'BELFRY'" + ofTrigger + " AND TRIGGER_STATE = 'WAITING' " +
			"AND NEXT_FIRE_TIME = ?",
		finish: []string{
			"DELETE FROM {table}SIMPLE_TRIGGERS" + ofTrigger, "DELETE FROM {table}CRON_TRIGGERS" + ofTrigger,
			"DELETE FROM {table}TRIGGERS" + ofTrigger,
		},
		giveBack: "UPDATE {table}TRIGGERS SET TRIGGER_STATE = 'WAITING'" + ofTrigger + " AND TRIGGER_STATE = 'BELFRY'",
	})
}

// trigger is a row of QRTZ_TRIGGERS, with those beside it.
type trigger struct {
	scheduler, name, group, kind, state string
	next                                int64 // Unix milliseconds
	end                                 sql.NullInt64
	calendar                            sql.NullString
	misfire                             int
	data                                []byte
	job, jobGroup, class                string
	nonconcurrent                       bool
	jobData                             []byte
	left, count, interval               sql.NullInt64 // of a simple trigger; the interval is in milliseconds
	cron, zone                          sql.NullString
}

// run is the payload of a task or of an occurrence.
type run struct {
	Class       string `json:"class"`
	Job         string `json:"job"`
	JobGroup    string `json:"job_group"`
	Trigger     string `json:"trigger"`
	Group       string `json:"trigger_group"`
	JobData     any    `json:"job_data,omitempty"`
	TriggerData any    `json:"trigger_data,omitempty"`
}

func readQuartz(rows *sql.Rows) (r imports.Record, err error) {
	var t trigger
	err = rows.Scan(&t.scheduler, &t.name, &t.group, &t.kind, &t.state, &t.next, &t.end, &t.calendar, &t.misfire, &t.data,
		&t.job, &t.jobGroup, &t.class, &t.nonconcurrent, &t.jobData, &t.left, &t.count, &t.interval, &t.cron, &t.zone)
	if err != nil {
		return r, err
	}
	r.Key = fmt.Sprintf("quartz:%s:%s.%s", t.scheduler, t.group, t.name)
	r.Claimed = t.state == "BELFRY"
	r.Origin = origin{key: []any{t.scheduler, t.name, t.group}, version: []any{t.next}}
	payload, err := json.Marshal(run{t.class, t.job, t.jobGroup, t.name, t.group, dataOf(t.jobData), dataOf(t.data)})
	if err != nil {
		return r, err
	}
	r.Text = string(payload)
	r.Task = dueTask(time.UnixMilli(t.next), t.class)
	r.Task.Payload = payload
	r.Err = t.convert(&r)
	return r, nil
}

// dataOf returns the data of a job or a trigger: the text of a properties file (useProperties), or the bytes of a
// Java map, as {"base64": "…"}. Nil: there is none.
func dataOf(data []byte) any {
	switch {
	case len(data) == 0:
		return nil
	case utf8.Valid(data):
		return string(data)
	}
	return map[string][]byte{"base64": data}
}

var (
	errCalendar = errors.New("the trigger has a calendar: make a schedule with a calendar of it")
	errAtOnce   = errors.New("the trigger fires more than once without an interval")
	errKind     = errors.New("the trigger is neither a simple trigger nor a cron trigger")
	errYear     = errors.New("the cron expression has a year: make a schedule with start and end of it")
)

// convert makes a schedule of a record whose trigger repeats.
func (t *trigger) convert(r *imports.Record) error {
	switch t.state {
	case "WAITING", "BELFRY":
	case "ACQUIRED", "EXECUTING", "BLOCKED", "COMPLETE":
		return imports.ErrGone
	default:
		return fmt.Errorf("the trigger is in the state %s", t.state)
	}
	if t.calendar.String != "" {
		return errCalendar
	}
	start := time.UnixMilli(t.next).UTC()
	rule := client.Repeat{Start: start}
	if t.end.Int64 > 0 {
		rule.End = time.UnixMilli(t.end.Int64).UTC()
	}
	switch left := t.left.Int64 + 1; {
	case t.kind == "SIMPLE" && t.count.Int64 >= 0 && left <= 1:
		return nil
	case t.kind == "SIMPLE" && t.interval.Int64 <= 0:
		return errAtOnce
	case t.kind == "SIMPLE":
		rule.Every, rule.Anchor = time.Duration(t.interval.Int64)*time.Millisecond, start
		if t.count.Int64 >= 0 {
			rule.Count = left
		}
	case t.kind == "CRON":
		expression, err := cronOf(t.cron.String)
		if err != nil {
			return err
		}
		rule.Cron, rule.TimeZone = []string{expression}, t.zone.String
	default:
		return errKind
	}
	note := strings.ToValidUTF8(r.Key[:min(len(r.Key), maxNote)], "")
	r.Schedule = &client.Schedule{Repeat: rule, Overlap: client.OverlapAllow, Note: note, Task: r.Task}
	r.Schedule.Task.FireAt = time.Time{}
	if t.nonconcurrent {
		r.Schedule.Overlap = client.OverlapQueueOne
	}
	switch {
	case t.misfire == -1: // ignore misfires
		r.Schedule.Misfire = client.MisfireAll
	case t.misfire == 2 && t.kind == "CRON": // do nothing
		r.Schedule.Misfire = client.MisfireSkip
	}
	return nil
}

const maxNote = 255 // bytes, as in the API

// weekday is a number of a day of the week, which is 1 for Sunday in Quartz.
var weekday = regexp.MustCompile(`(^|[,-])([1-7])`)

// cronOf returns an expression of Quartz as Belfry reads it: with names for the days of the week, and without a year.
func cronOf(text string) (string, error) {
	fields := strings.Fields(text)
	if len(fields) == 7 {
		if fields[6] != "*" {
			return "", errYear
		}
		fields = fields[:6]
	}
	if len(fields) == 6 {
		names := []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
		fields[5] = weekday.ReplaceAllStringFunc(fields[5], func(number string) string {
			last := len(number) - 1
			return number[:last] + names[number[last]-'1']
		})
		if fields[5] == "L" {
			fields[5] = "SAT"
		}
	}
	return strings.Join(fields, " "), nil
}
