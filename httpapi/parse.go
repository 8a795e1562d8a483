package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/calendar"
)

// parser reads the bodies and lines of one request.
type parser struct {
	now         arrival
	namespace   string // of the request
	id          string // in the path; empty: none
	traceparent string // of the request; empty: none
	receivers   Receivers
	calendars   knownCalendars
}

// Receivers are the receivers that tasks may have.
type Receivers interface {
	// CheckURL refuses a receiver that deliveries must not reach.
	CheckURL(rawURL string) *task.FieldError
}

// knownCalendars are the calendars that this node knows.
type knownCalendars interface {
	// Calendar returns a calendar, and a nil one with the version 0 if there is none.
	Calendar(namespace, name string) (*calendar.Calendar, uint64)
}

// calendarOf returns the calendar that a rule or a window names, or nil if it names none or one that does not exist.
func calendarOf(known knownCalendars, namespace, name string) *calendar.Calendar {
	if name == "" {
		return nil
	}
	c, _ := known.Calendar(namespace, name)
	return c
}

func (p *parser) calendarOf(name string) *calendar.Calendar {
	return calendarOf(p.calendars, p.namespace, name)
}

// rule checks a rule as a whole, by the calendar of the request's namespace.
func (p *parser) rule(r *fsmpb.Repeat) (*repeat.Rule, error) {
	return repeating.Rule(r, p.calendarOf(r.GetCalendar()), p.now.at)
}

// draft is the part of a body or a line that is read so far. The meaning of its fields is known only at the end.
type draft struct {
	specReader
	text    contract.Reader // part of the draft, so that it needs no allocation
	seen    contract.Set
	command *command
	op      string

	// Of a touch: at most one of an instant and an age, nil if it is not given.
	latestMs, latestAgeMs *int64
	added                 []byte // the elements to append
}

func (p *parser) newDraft(data []byte) *draft {
	d := &draft{text: *contract.NewReader(data), command: new(command)}
	d.command.schedule.link()
	d.specReader = specReader{parser: p, r: &d.text, spec: &d.command.schedule.spec}
	return d
}

// parse reads a body or a line that is the object o.
func (p *parser) parse(data []byte, o *contract.Object) (*draft, error) {
	d := p.newDraft(data)
	return d, d.r.Root(o, &d.seen, d.member)
}

// patch reads a merge patch (RFC 7396) that is the object o: an absent member stays, null restores the default, and any
// other value is set.
func (p *parser) patch(data []byte, o *contract.Object) (*draft, error) {
	d := p.newDraft(data)
	d.patch = &fsmpb.Patch{Set: d.spec}
	d.command.msg.Op = &fsmpb.Command_Patch{Patch: d.patch}
	err := d.r.Root(o, &d.seen, d.member)
	if err == nil {
		err = p.checkPatch(d.patch, d.seen)
	}
	return d, err
}

// member reads the value of any field.
func (d *draft) member(f contract.Field) (err error) {
	r, cmd := d.r, d.command
	switch f {
	case contract.Op:
		d.op, err = d.lineOp()
	case contract.ID:
		cmd.msg.Id, err = r.Text("id")
	case contract.Key:
		err = key(r, cmd)
	case contract.IfMatch:
		err = ifMatch(r, &cmd.condition)
	case contract.IfNoneMatch:
		err = ifNoneMatch(r, &cmd.condition)
	case contract.FireAt, contract.Delay:
		err = d.dueTime(f)
	case contract.Jitter:
		cmd.schedule.jitterMs, err = wholeSpan(r, "jitter")
	case contract.NoLaterThan:
		err = d.noLaterThan()
	case contract.OrSchedule:
		cmd.orSchedule, err = d.orSchedule(r)
	case contract.Append:
		d.added, err = elements(r)
	default:
		err = d.specReader.member(f)
	}
	return err
}

// dueTime reads the instant at which a task is due, or its delay.
func (d *draft) dueTime(f contract.Field) error {
	plan := &d.command.schedule
	if d.patch != nil && d.r.Null() {
		return &task.FieldError{Field: f.String(), Detail: "cannot be null: a task is always due at some time"}
	}
	text, err := d.r.Text(f.String())
	if err != nil {
		return err
	}
	if f == contract.FireAt {
		plan.msg.FireAtMs, err = instantField("fire_at", text, d.now.at)
	} else {
		err = d.delay(text)
	}
	if d.patch != nil {
		d.patch.FireAtMs, d.patch.DelayMs = &plan.msg.FireAtMs, plan.msg.DelayMs
	}
	return err
}

func (d *draft) delay(text string) error {
	delay, err := spanField("delay", text)
	if err == nil {
		err = d.now.check()
	}
	if err != nil {
		return err
	}
	plan := &d.command.schedule
	plan.delayMs = contract.CeilMs(delay)
	plan.msg.DelayMs = &plan.delayMs
	plan.msg.FireAtMs = contract.CeilUnixMs(d.now.at.Add(delay))
	return nil
}

// complete checks a schedule as a whole and fills in the values that the request leaves out.
func (p *parser) complete(plan *plan, seen contract.Set) error {
	if seen.Has(contract.FireAt) == seen.Has(contract.Delay) {
		detail := "is absent, and so is fire_at: say when with exactly one of them"
		if seen.Has(contract.Delay) {
			detail = "and fire_at are both given: say when with exactly one of them"
		}
		return &task.FieldError{Field: "delay", Detail: detail}
	}
	if err := onePayload(seen); err != nil {
		return err
	}
	if plan.msg.FireAtMs+plan.jitterMs > contract.CeilUnixMs(p.now.at.Add(task.MaxDelay)) {
		return &task.FieldError{Field: "jitter", Detail: "reaches too far ahead", Limit: "100 years from now"}
	}
	plan.msg.ReceivedAtMs = p.now.at.UnixMilli()
	plan.spec.Traceparent = p.traceparent
	return p.checkSpec(&plan.spec)
}

func key(r *contract.Reader, cmd *command) error {
	key, err := r.Text("key")
	if err != nil {
		return err
	}
	return cmd.setKey("key", key)
}

// asSchedule turns the draft into a schedule.
func (p *parser) asSchedule(d *draft, generated bool) error {
	plan := &d.command.schedule
	if err := p.complete(plan, d.seen); err != nil {
		return err
	}
	plan.msg.GeneratedId = generated
	d.command.msg.Op = &plan.op
	return nil
}

// asTouch turns the draft into a touch. Its time of receipt is rounded up, since the new delay counts from it.
func (p *parser) asTouch(d *draft) error {
	if err := p.now.check(); err != nil {
		return err
	}
	touch := &fsmpb.Touch{
		ReceivedAtMs: contract.CeilUnixMs(p.now.at), DelayMs: d.command.schedule.msg.DelayMs,
		NoLaterThanMs: d.latestMs, NoLaterThanAgeMs: d.latestAgeMs,
	}
	if err := d.touchPayload(touch); err != nil {
		return err
	}
	d.command.msg.Op = &fsmpb.Command_Touch{Touch: touch}
	return nil
}

// touchPayload gives a touch its payload and its task. A task without a payload of its own, or with an empty array,
// gets the payload of the touch.
func (d *draft) touchPayload(touch *fsmpb.Touch) error {
	if err := onePayload(d.seen); err != nil {
		return err
	}
	replaces, adds := d.seen&(1<<contract.Payload|1<<contract.PayloadBase64) != 0, d.seen.Has(contract.Append)
	if replaces && adds {
		return &task.FieldError{Field: "append", Detail: "and a payload are both given: at most one of them"}
	}
	payload, isBytes := d.spec.Payload, d.spec.PayloadIsBytes
	switch {
	case replaces:
		touch.Payload = &fsmpb.Payload{Data: payload, IsBytes: isBytes}
	case adds:
		touch.Append = d.added
		payload = slices.Concat([]byte{'['}, d.added, []byte{']'})
	}
	if d.command.orSchedule == nil {
		return nil
	}
	made := &d.command.orSchedule.spec
	touch.OrSchedule = &d.command.orSchedule.msg
	if within, ok := task.Elements(made); (replaces || adds) && ok && len(within) == 0 {
		made.Payload, made.PayloadIsBytes = payload, isBytes
		return d.checkSpec(made)
	}
	return nil
}

// elements reads a JSON array and returns its elements as they were sent, without the brackets.
func elements(r *contract.Reader) ([]byte, error) {
	const field = "append"
	if r.Peek() != '[' {
		return nil, r.WrongType(field, "an array")
	}
	array, err := r.Value()
	if err != nil {
		return nil, err
	}
	within, _ := task.Elements(&fsmpb.Spec{Payload: array})
	return within, checkPayload(field, len(array))
}

func (p *parser) asCancel(d *draft) {
	d.command.msg.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
}

func (p *parser) asFire(d *draft) {
	d.command.msg.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
}

// noLaterThan reads an instant, or a duration counted from the task's creation.
func (d *draft) noLaterThan() error {
	const name = "no_later_than"
	text, err := d.r.Text(name)
	if err != nil {
		return err
	}
	if len(text) > 4 && text[4] == '-' {
		at, err := instantField(name, text, d.now.at)
		d.latestMs = &at
		return err
	}
	age, err := readAge(name, text)
	d.latestAgeMs = &age
	return err
}

func readAge(name, text string) (int64, error) {
	if _, err := contract.ParseDuration(text); err != nil {
		const detail = "must be an instant (RFC 3339), or a duration from the task's creation"
		return 0, &task.FieldError{Field: name, Detail: detail}
	}
	d, err := spanField(name, text)
	return contract.CeilMs(d), err
}

// orSchedule reads a task as in a PUT. Its errors name the field with the prefix or_schedule.
func (p *parser) orSchedule(r *contract.Reader) (*plan, error) {
	if r.Peek() != '{' {
		return nil, r.WrongType("or_schedule", "an object")
	}
	inner := p.newDraft(nil)
	inner.r = r
	err := r.Object("or_schedule", &contract.PostObject, &inner.seen, inner.member)
	if err == nil {
		err = p.complete(&inner.command.schedule, inner.seen)
	}
	if err != nil {
		return nil, within("or_schedule.", err)
	}
	return &inner.command.schedule, nil
}

// within puts a prefix before the field that an error names.
func within(prefix string, err error) error {
	var field *task.FieldError
	var member *contract.MemberError
	var refusal *problem
	switch {
	case errors.As(err, &member):
		return &contract.MemberError{Name: prefix + member.Name, Detail: member.Detail, Limit: member.Limit}
	case errors.As(err, &field):
		return &task.FieldError{Field: prefix + field.Field, Detail: field.Detail, Limit: field.Limit}
	case errors.As(err, &refusal) && refusal.field != "":
		named := *refusal
		named.field = prefix + named.field
		return &named
	}
	return err
}

const spanLimit = "0s to 100 years (36500d)"

// instantField reads an instant from 1970 to 100 years from now.
func instantField(field, text string, now time.Time) (int64, error) {
	ms, err := contract.ParseInstant(text)
	if err != nil {
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	}
	if ms < 0 {
		return 0, &task.FieldError{Field: field, Detail: "is too early", Limit: "1970-01-01T00:00:00Z or later"}
	}
	if latest := now.Add(task.MaxDelay); ms > contract.CeilUnixMs(latest) {
		return 0, &task.FieldError{Field: field, Detail: "is too far ahead", Limit: "100 years from now"}
	}
	return ms, nil
}

// spanField reads a duration from 0 to 100 years.
func spanField(field, text string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	case d < 0:
		return 0, &task.FieldError{Field: field, Detail: "is negative", Limit: spanLimit}
	case d > task.MaxDelay:
		return 0, &task.FieldError{Field: field, Detail: "is too long", Limit: spanLimit}
	}
	return d, nil
}

// wholeSpan reads a duration from 0 to 100 years, and returns milliseconds, rounded up.
func wholeSpan(r *contract.Reader, field string) (int64, error) {
	text, err := r.Text(field)
	if err != nil {
		return 0, err
	}
	d, err := spanField(field, text)
	return contract.CeilMs(d), err
}

// positive reads a duration of more than 0 and at most limit, and returns whole milliseconds, rounded up.
func positive(r *contract.Reader, field string, limit time.Duration, limitText string) (int64, error) {
	d, err := r.Duration(field)
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return 0, &task.FieldError{Field: field, Detail: "is not longer than nothing",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	case d > limit:
		return 0, &task.FieldError{Field: field, Detail: "is too long",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	}
	return contract.CeilMs(d), nil
}

// span returns the member whose value is a duration within bounds.
func span(place *time.Duration, least, most time.Duration, limit string) contract.Member {
	return contract.Into(place, func(r *contract.Reader, full string) (time.Duration, error) {
		text, err := r.Text(full)
		if err != nil {
			return 0, err
		}
		return boundedSpan(full, text, least, most, limit)
	})
}

func boundedSpan(name, text string, least, most time.Duration, limit string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: name, Detail: err.Error()}
	case d < least:
		return 0, &task.FieldError{Field: name, Detail: "is too short", Limit: limit}
	case d > most:
		return 0, &task.FieldError{Field: name, Detail: "is too long", Limit: limit}
	}
	return milliseconds(contract.CeilMs(d)), nil
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// choice returns the member whose value is one of the names. place gets the name's number.
func choice[T ~int32](place *T, names []string) contract.Member {
	return contract.Into(place, func(r *contract.Reader, full string) (T, error) {
		text, err := oneOf(r, full, names)
		return T(max(0, slices.Index(names, text))), err
	})
}

// oneOf reads one of the names.
func oneOf(r *contract.Reader, full string, names []string) (string, error) {
	text, err := r.Text(full)
	if err == nil && !slices.Contains(names, text) {
		err = &task.FieldError{Field: full, Detail: fmt.Sprintf("is %q", contract.Clip(text)),
			Limit: strings.Join(names, ", ")}
	}
	return text, err
}

// inPath returns the member name whose value, if it is given, must be that in the path.
func inPath(name, value string) contract.Member {
	return func(r *contract.Reader, _ string, _ bool) error {
		text, err := r.Text(name)
		if err == nil && text != value {
			err = &task.FieldError{Field: name, Detail: "is not the " + name + " in the path"}
		}
		return err
	}
}

// absent returns the refusal of a request without a member that it needs.
func absent(name string) error { return &task.FieldError{Field: name, Detail: "is absent"} }

// appendCount appends a number, unless it is 0.
func appendCount(b []byte, f contract.Field, n uint32) []byte {
	if n == 0 {
		return b
	}
	return contract.AppendUint(b, f, uint64(n))
}

// appendSpan appends a duration in milliseconds, unless it is 0.
func appendSpan(b []byte, f contract.Field, ms int64) []byte {
	return contract.AppendSpan(b, f, time.Duration(ms)*time.Millisecond)
}
