package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
)

// The limits of a schedule, beside those of its rule and its task.
const (
	maxNoteBytes = 255
	maxBackfill  = 1000 // occurrences of one call
)

// The names of the policies in JSON, by their numbers in the messages.
var (
	misfires = []string{
		fsmpb.Misfire_MISFIRE_LATEST: "latest", fsmpb.Misfire_MISFIRE_ALL: "all", fsmpb.Misfire_MISFIRE_SKIP: "skip",
	}
	overlaps = []string{
		fsmpb.Overlap_OVERLAP_SKIP: "skip", fsmpb.Overlap_OVERLAP_QUEUE_ONE: "queue_one",
		fsmpb.Overlap_OVERLAP_QUEUE_ALL: "queue_all", fsmpb.Overlap_OVERLAP_ALLOW: "allow",
		fsmpb.Overlap_OVERLAP_CANCEL_PREVIOUS: "cancel_previous",
	}
)

// answeredOfSchedule lists the members that only answers have.
var answeredOfSchedule = []string{
	"last", "next_at", "running", "waiting", "started", "passed", "ended", "revision", "shard", "created_at", "tz_data",
}

// seriesDraft is a schedule as a request gives it.
type seriesDraft struct {
	p      *parser
	id     string // in the path
	set    *fsmpb.SetSeries
	merged bool // into the stored schedule: a null restores a default

	patched []byte // the payload that a patch gives
	ruled   bool   // the request gives a rule
}

// newSeries reads a schedule that replaces any other one of its id.
func (p *parser) newSeries(data []byte, id string) (*fsmpb.SetSeries, error) {
	d := &seriesDraft{p: p, id: id, set: &fsmpb.SetSeries{
		Spec: new(fsmpb.Spec), Series: &fsmpb.Series{Repeat: new(fsmpb.Repeat)},
	}}
	err := d.read(data)
	if err == nil && !d.ruled {
		err = absent("repeat")
	}
	return d.set, err
}

// patchSeries merges a merge patch (RFC 7396) into a copy of a stored schedule.
func (p *parser) patchSeries(data []byte, stored *fsmpb.Task) (*seriesDraft, error) {
	id, _ := task.SplitSeries(stored.Id)
	d := &seriesDraft{p: p, id: id, set: settingsOf(stored), merged: true}
	return d, d.read(data)
}

// settingsOf returns a copy of the part of a schedule that callers set.
func settingsOf(t *fsmpb.Task) *fsmpb.SetSeries {
	return proto.CloneOf(&fsmpb.SetSeries{Spec: t.GetSpec(), Series: task.SettingsOf(t.GetSeries())})
}

// read reads a body into the draft, and checks the whole.
func (d *seriesDraft) read(data []byte) error {
	if err := d.p.now.check(); err != nil { // occurrences count from now
		return err
	}
	if err := d.members().Root(data, d.merged); err != nil {
		return err
	}
	d.set.ReceivedAtMs = d.p.now.at.UnixMilli()
	if err := d.p.checkSpec(d.set.Spec); err != nil {
		return within("task.", err)
	}
	return d.checkRule()
}

// checkRule refuses a given rule that is wrong as a whole, and one whose exclusions leave nothing out. A rule that is
// over is neither: the call may be a repeat, and the answer says that the schedule has ended.
func (d *seriesDraft) checkRule() error {
	if !d.ruled {
		return nil
	}
	rule, err := d.p.rule(d.set.Series.Repeat)
	if err != nil {
		return err
	}
	if o, ok := rule.Next(d.p.now.at); !ok && len(o.Excluded) >= repeat.MaxExcluded {
		last := o.Excluded[len(o.Excluded)-1]
		return &task.FieldError{Field: "repeat.except", Detail: fmt.Sprintf("takes away every instant of the rule that was "+
			"looked at, up to %s", last.At.Format(time.RFC3339)), Limit: fmt.Sprintf("%d in a row", repeat.MaxExcluded)}
	}
	return nil
}

func (d *seriesDraft) members() contract.Members {
	s := d.set.Series
	m := contract.Members{
		"id":             inPath("id", d.id),
		"repeat":         d.rule,
		"misfire":        choice(&s.Misfire, misfires),
		"misfire_window": contract.Into(&s.MisfireWindowMs, wholeSpan), // 0: no limit
		"overlap":        choice(&s.Overlap, overlaps),
		"paused":         contract.Bool(&s.Paused),
		"note":           contract.Into(&s.Note, note),
		"task":           d.task,
	}
	for _, name := range answeredOfSchedule {
		m[name] = contract.SetByService
	}
	return m
}

func (d *seriesDraft) rule(r *contract.Reader, full string, merged bool) error {
	if merged && r.Null() {
		return &task.FieldError{Field: full, Detail: "cannot be null: a schedule always has a rule"}
	}
	d.ruled = true
	return repeating.Member(d.set.Series.Repeat, d.p.now.at)(r, full, merged)
}

func note(r *contract.Reader, full string) (string, error) {
	text, err := r.Text(full)
	if err == nil && len(text) > maxNoteBytes {
		err = &task.FieldError{Field: full, Detail: fmt.Sprintf("is %d bytes long", len(text)),
			Limit: fmt.Sprintf("%d bytes", maxNoteBytes)}
	}
	return text, err
}

// task reads the task that the occurrences are made of. Its errors name the field with the prefix task.
func (d *seriesDraft) task(r *contract.Reader, full string, merged bool) error {
	s, seen := specReader{parser: d.p, r: r, spec: d.set.Spec}, contract.Set(0)
	if merged {
		if r.Null() {
			d.set.Spec = new(fsmpb.Spec)
			return nil
		}
		s.spec = new(fsmpb.Spec)
		s.patch = &fsmpb.Patch{Set: s.spec}
	}
	if r.Peek() != '{' {
		return r.WrongType(full, "an object")
	}
	err := r.Object(full, &contract.SeriesTaskObject, &seen, s.member)
	if err == nil {
		err = onePayload(seen)
	}
	if err == nil && merged {
		d.patched = s.spec.Payload
		d.set.Spec, err = mergeSpec(d.set.Spec, s.patch)
		if err == nil {
			err = checked(task.CheckMasked(d.set.Spec.Target))
		}
	}
	if err != nil {
		return within("task.", err)
	}
	return nil
}

// pauseNote reads the optional body of a pause or a resume.
func pauseNote(data []byte) (text string, err error) {
	err = contract.Members{"note": contract.Into(&text, note)}.Optional(data)
	return text, err
}

// backfill is the body of a backfill: the first and the last instant that it may begin, in Unix milliseconds.
type backfill struct{ from, to int64 }

// backfill reads the range of a backfill, which must not reach beyond now.
func (p *parser) backfill(data []byte) (b backfill, err error) {
	if err := p.now.check(); err != nil {
		return b, err
	}
	seen := map[string]bool{}
	instant := func(r *contract.Reader, full string) (int64, error) {
		seen[full] = true
		text, err := r.Text(full)
		if err != nil {
			return 0, err
		}
		return instantField(full, text, p.now.at)
	}
	err = contract.Members{"from": contract.Into(&b.from, instant), "to": contract.Into(&b.to, instant)}.Root(data, false)
	if err != nil {
		return b, err
	}
	for _, name := range []string{"from", "to"} {
		if !seen[name] {
			return b, absent(name)
		}
	}
	return b, p.checkBackfill(b)
}

func (p *parser) checkBackfill(b backfill) error {
	switch {
	case b.to > contract.CeilUnixMs(p.now.at):
		return &task.FieldError{Field: "to", Detail: "is after now: what is to come begins by itself",
			Limit: p.now.at.UTC().Format(time.RFC3339Nano)}
	case b.to < b.from:
		return &task.FieldError{Field: "to", Detail: "is before from"}
	}
	return nil
}

// instants returns the instants of a rule within the range, in Unix milliseconds. It does not count occurrences.
func (b backfill) instants(rule *repeat.Rule) (found []int64, err error) {
	after, last, excluded := time.UnixMilli(b.from-1), time.UnixMilli(b.to), 0
	for {
		o, ok := rule.Next(after)
		excluded += len(o.Excluded)
		switch {
		case excluded >= repeat.MaxExcluded:
			return nil, beyondRange("too many instants that repeat.except takes away", repeat.MaxExcluded)
		case !ok || o.At.After(last):
			if len(found) == 0 {
				return nil, beyondRange("no instant of the schedule's rule", 0)
			}
			return found, nil
		case len(found) == maxBackfill:
			return nil, beyondRange("too many instants of the schedule's rule", maxBackfill)
		}
		found, after = append(found, o.At.UnixMilli()), o.At
	}
}

func beyondRange(what string, limit int) error {
	err := &task.FieldError{Field: "from", Detail: "and to enclose " + what}
	if limit > 0 {
		err.Limit = fmt.Sprint(limit)
	}
	return err
}

// canonical returns a JSON text without its white space and with the members of its objects in order, so that texts of
// one meaning are the same bytes.
func canonical(text []byte) ([]byte, error) {
	if err := contract.Valid(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
