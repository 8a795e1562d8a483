package httpapi

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
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
	traceparent string // of the request; empty: none
	checkURL    func(rawURL string) *task.FieldError
	calendarOf  func(namespace, name string) *calendar.Calendar
}

// rule checks a rule as a whole, by the calendar of the request's namespace.
func (p *parser) rule(r *fsmpb.Repeat) (*repeat.Rule, error) {
	return repeating.Rule(r, p.calendarOf(p.namespace, r.GetCalendar()), p.now.at)
}

// draft is the part of a body or a line that is read so far. The meaning of its fields is known only at the end.
type draft struct {
	seen  contract.Set
	order *order
	op    string
	touch fsmpb.Touch
}

func newDraft() *draft {
	d := &draft{order: new(order)}
	d.order.schedule.link()
	return d
}

// parse reads a body or a line that is the object o.
func (p *parser) parse(data []byte, o *contract.Object) (*draft, error) {
	d := newDraft()
	r := contract.NewReader(data)
	return d, r.Root(o, &d.seen, func(f contract.Field) error { return p.member(r, d, f) })
}

// member reads the value of any field.
func (p *parser) member(r *contract.Reader, d *draft, f contract.Field) (err error) {
	o, spec := d.order, &d.order.schedule.spec
	switch f {
	case contract.Op:
		d.op, err = lineOp(r)
	case contract.ID:
		o.cmd.Id, err = r.Text("id")
	case contract.Key:
		err = key(r, o)
	case contract.IfMatch:
		err = ifMatch(r, &o.condition)
	case contract.IfNoneMatch:
		err = ifNoneMatch(r, &o.condition)
	case contract.FireAt, contract.Delay:
		err = p.when(r, f, &o.schedule)
	case contract.Jitter:
		o.schedule.jitterMs, err = jitter(r)
	case contract.NoLaterThan:
		err = p.noLaterThan(r, &d.touch)
	case contract.OrSchedule:
		o.instead, err = p.orSchedule(r)
	default:
		err = p.specMember(r, f, spec)
	}
	return err
}

func (p *parser) specMember(r *contract.Reader, f contract.Field, spec *fsmpb.Spec) (err error) {
	switch f {
	case contract.Queue:
		spec.Queue, err = queue(r)
	case contract.Payload:
		spec.Payload, err = payload(r)
	case contract.PayloadBase64:
		spec.Payload, err = payloadBase64(r)
		spec.PayloadIsBytes = true
	case contract.ContentType:
		spec.ContentType, err = contentType(r)
	case contract.Target:
		spec.Target, err = target(r)
	case contract.Retry:
		spec.Retry, err = retry(r)
	case contract.ExpiresAfter:
		spec.ExpiresAfterMs, err = expiresAfter(r)
	case contract.Labels:
		spec.Labels, err = labels(r)
	case contract.Window:
		spec.Window, err = p.window(r)
	case contract.Group:
		spec.Group, err = group(r)
	case contract.Priority:
		spec.Priority, err = priority(r)
	default:
		panic("httpapi: no parser for field " + f.String())
	}
	return err
}

func expiresAfter(r *contract.Reader) (int64, error) {
	return positive(r, "expires_after", task.MaxDelay, "100 years")
}

func (p *parser) when(r *contract.Reader, f contract.Field, plan *plan) error {
	text, err := r.Text(f.String())
	if err != nil {
		return err
	}
	if f == contract.FireAt {
		plan.msg.FireAtMs, err = instantField("fire_at", text, p.now.at)
		return err
	}
	delay, err := spanField("delay", text)
	if err == nil {
		err = p.now.check()
	}
	if err != nil {
		return err
	}
	plan.delayMs = contract.CeilMs(delay)
	plan.msg.DelayMs = &plan.delayMs
	plan.msg.FireAtMs = contract.CeilUnixMs(p.now.at.Add(delay))
	return nil
}

// jitter reads the window over which a task's instant may be spread, in milliseconds.
func jitter(r *contract.Reader) (int64, error) {
	text, err := r.Text("jitter")
	if err != nil {
		return 0, err
	}
	d, err := spanField("jitter", text)
	return contract.CeilMs(d), err
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

func onePayload(seen contract.Set) error {
	if seen.Has(contract.Payload) && seen.Has(contract.PayloadBase64) {
		return &task.FieldError{Field: "payload_base64", Detail: "and payload are both given: at most one of them"}
	}
	return nil
}

// checkSpec checks the properties of a task, and leaves out a content type that is the default.
func (p *parser) checkSpec(spec *fsmpb.Spec) error {
	if spec.ContentType == task.DefaultContentType && !spec.PayloadIsBytes {
		spec.ContentType = ""
	}
	if err := task.CheckSpec(spec); err != nil {
		return err
	}
	if spec.Target != nil {
		if err := p.checkURL(spec.Target.Url); err != nil {
			return err
		}
	}
	return nil
}

func key(r *contract.Reader, o *order) error {
	key, err := r.Text("key")
	if err != nil {
		return err
	}
	return o.setKey("key", key)
}

// queue reads a queue's name. It returns the default queue's name as "".
func queue(r *contract.Reader) (string, error) {
	name, err := r.Text("queue")
	if err != nil {
		return "", err
	}
	if err := task.CheckName("queue", name); err != nil {
		return "", err
	}
	if name == task.DefaultQueue {
		return "", nil
	}
	return name, nil
}

// contentType reads a content type, which must be a media type that a header can carry.
func contentType(r *contract.Reader) (string, error) {
	const field = "content_type"
	text, err := r.Text(field)
	if err != nil {
		return "", err
	}
	media, _, err := mime.ParseMediaType(text)
	switch {
	case text == "":
		return "", &task.FieldError{Field: field, Detail: "is empty"}
	case strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) >= 0:
		return "", &task.FieldError{Field: field, Detail: "has a character that no header can carry"}
	case len(text) > task.MaxContentType:
		return text, nil // CheckSpec words the limit
	case err != nil || !strings.Contains(media, "/"):
		return "", &task.FieldError{Field: field, Detail: "is no media type", Limit: "like text/plain; charset=utf-8"}
	}
	return text, nil
}

// payload reads any JSON value and keeps it byte for byte.
func payload(r *contract.Reader) ([]byte, error) {
	raw, err := r.Value()
	if err != nil {
		return nil, err
	}
	return raw, checkPayload("payload", len(raw))
}

func payloadBase64(r *contract.Reader) ([]byte, error) {
	const name = "payload_base64"
	text, err := r.TextBytes(name, "a string of base64")
	if err != nil {
		return nil, err
	}
	if err := checkPayload(name, base64.StdEncoding.DecodedLen(len(text))-2); err != nil { // 2: the most padding
		return nil, err
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") { // Decode skips line ends
		return nil, &task.FieldError{Field: name, Detail: "is not standard base64 with padding (RFC 4648, section 4)"}
	}
	return out[:n], checkPayload(name, n)
}

func checkPayload(field string, n int) error {
	if n <= task.MaxPayloadBytes {
		return nil
	}
	return &problem{kind: tooLarge, field: field, detail: fmt.Sprintf("is %d bytes", n),
		limit: fmt.Sprintf("%d bytes", task.MaxPayloadBytes)}
}

// asSchedule turns the draft into a schedule.
func (p *parser) asSchedule(d *draft, generated bool) error {
	plan := &d.order.schedule
	if err := p.complete(plan, d.seen); err != nil {
		return err
	}
	plan.msg.GeneratedId = generated
	d.order.cmd.Op = &plan.op
	return nil
}

// asTouch turns the draft into a touch. Its time of receipt is rounded up, since the new delay counts from it.
func (p *parser) asTouch(d *draft) error {
	if err := p.now.check(); err != nil {
		return err
	}
	d.touch.ReceivedAtMs = contract.CeilUnixMs(p.now.at)
	d.touch.DelayMs = d.order.schedule.msg.DelayMs
	if d.order.instead != nil {
		d.touch.OrSchedule = &d.order.instead.msg
	}
	d.order.cmd.Op = &fsmpb.Command_Touch{Touch: &d.touch}
	return nil
}

func (p *parser) asCancel(d *draft) {
	d.order.cmd.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
}

func (p *parser) asFire(d *draft) {
	d.order.cmd.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
}

// noLaterThan reads an instant, or a duration counted from the task's creation.
func (p *parser) noLaterThan(r *contract.Reader, t *fsmpb.Touch) error {
	const name = "no_later_than"
	text, err := r.Text(name)
	if err != nil {
		return err
	}
	if len(text) > 4 && text[4] == '-' {
		at, err := instantField(name, text, p.now.at)
		t.NoLaterThanMs = &at
		return err
	}
	age, err := p.age(name, text)
	t.NoLaterThanAgeMs = &age
	return err
}

func (p *parser) age(name, text string) (int64, error) {
	if _, err := contract.ParseDuration(text); err != nil {
		const detail = "must be an instant (RFC 3339), or a duration from the task's creation"
		return 0, &task.FieldError{Field: name, Detail: detail}
	}
	var d time.Duration
	d, err := spanField(name, text)
	return contract.CeilMs(d), err
}

// orSchedule reads a task as in a PUT. Its errors name the field with the prefix or_schedule.
func (p *parser) orSchedule(r *contract.Reader) (*plan, error) {
	inner := newDraft()
	if r.Peek() != '{' {
		return nil, r.WrongType("or_schedule", "an object")
	}
	err := r.Object("or_schedule", &contract.PostObject, &inner.seen, func(f contract.Field) error {
		return p.member(r, inner, f)
	})
	if err == nil {
		err = p.complete(&inner.order.schedule, inner.seen)
	}
	if err != nil {
		return nil, within("or_schedule.", err)
	}
	return &inner.order.schedule, nil
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
