package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// parser reads the bodies and lines of one request.
type parser struct {
	now         arrival
	traceparent string // of the request; empty: none
	checkURL    func(rawURL string) *task.FieldError
}

// draft is what a body or a line has said so far. Which parts of it matter is known only at its end.
type draft struct {
	seen  fieldSet
	order *order
	op    string
	touch fsmpb.Touch
}

func newDraft() *draft {
	d := &draft{order: new(order)}
	d.order.schedule.link()
	return d
}

// parse reads one JSON object whose members are among allowed.
func (p *parser) parse(data []byte, allowed fieldSet) (*draft, error) {
	d := newDraft()
	s := &scanner{data: data}
	if c := s.peek(); c != '{' {
		return nil, s.notObject()
	}
	if err := p.object(s, d, allowed); err != nil {
		return d, err
	}
	return d, s.end()
}

// notObject refuses a text that is no object, or no JSON at all.
func (s *scanner) notObject() error {
	if len(s.data) == s.pos {
		return s.fail("the body is empty, and it ends")
	}
	if _, err := s.value(); err != nil {
		return err
	}
	return &problem{kind: malformedJSON, detail: "must be a JSON object"}
}

func (p *parser) object(s *scanner, d *draft, allowed fieldSet) error {
	return s.object(func(name []byte) error {
		f, err := d.seen.admit(name, allowed)
		if err != nil {
			return err
		}
		return p.member(s, d, f)
	})
}

// member reads the value of any field.
func (p *parser) member(s *scanner, d *draft, f field) (err error) {
	o, spec := d.order, &d.order.schedule.spec
	switch f {
	case fieldOp:
		d.op, err = s.lineOp()
	case fieldID:
		o.cmd.Id, err = s.text("id")
	case fieldKey:
		err = s.key(o)
	case fieldIfMatch:
		err = s.ifMatch(&o.condition)
	case fieldIfNoneMatch:
		err = s.ifNoneMatch(&o.condition)
	case fieldFireAt, fieldDelay:
		err = p.when(s, f, &o.schedule)
	case fieldJitter:
		o.schedule.jitterMs, err = s.jitter()
	case fieldNoLaterThan:
		err = p.noLaterThan(s, &d.touch)
	case fieldOrSchedule:
		o.instead, err = p.orSchedule(s)
	default:
		err = p.specMember(s, f, spec)
	}
	return err
}

func (p *parser) specMember(s *scanner, f field, spec *fsmpb.Spec) (err error) {
	switch f {
	case fieldQueue:
		spec.Queue, err = s.queue()
	case fieldPayload:
		spec.Payload, err = s.payload()
	case fieldPayloadBase64:
		spec.Payload, err = s.payloadBase64()
		spec.PayloadIsBytes = true
	case fieldContentType:
		spec.ContentType, err = s.contentType()
	case fieldTarget:
		spec.Target, err = p.target(s)
	case fieldRetry:
		spec.Retry, err = retry(s)
	case fieldExpiresAfter:
		spec.ExpiresAfterMs, err = s.positive("expires_after", task.MaxDelay, "100 years")
	case fieldLabels:
		spec.Labels, err = labels(s)
	default:
		panic("httpapi: no parser for field " + f.String())
	}
	return err
}

func (p *parser) when(s *scanner, f field, plan *plan) error {
	text, err := s.text(f.String())
	if err != nil {
		return err
	}
	if f == fieldFireAt {
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
	plan.delayMs = ceilMs(delay)
	plan.msg.DelayMs = &plan.delayMs
	plan.msg.FireAtMs = ceilUnixMs(p.now.at.Add(delay))
	return nil
}

// jitter reads over how long the instant may be spread.
func (s *scanner) jitter() (int64, error) {
	text, err := s.text("jitter")
	if err != nil {
		return 0, err
	}
	d, err := spanField("jitter", text)
	return ceilMs(d), err
}

// complete checks a schedule as a whole and fills in what the request does not say.
func (p *parser) complete(plan *plan, seen fieldSet) error {
	if seen.has(fieldFireAt) == seen.has(fieldDelay) {
		detail := "is absent, and so is fire_at: say when with exactly one of them"
		if seen.has(fieldDelay) {
			detail = "and fire_at are both given: say when with exactly one of them"
		}
		return &task.FieldError{Field: "delay", Detail: detail}
	}
	if err := onePayload(seen); err != nil {
		return err
	}
	if plan.msg.FireAtMs+plan.jitterMs > ceilUnixMs(p.now.at.Add(task.MaxDelay)) {
		return &task.FieldError{Field: "jitter", Detail: "reaches too far ahead", Limit: "100 years from now"}
	}
	plan.msg.ReceivedAtMs = p.now.at.UnixMilli()
	plan.spec.Traceparent = p.traceparent
	return p.checkSpec(&plan.spec)
}

func onePayload(seen fieldSet) error {
	if seen.has(fieldPayload) && seen.has(fieldPayloadBase64) {
		return &task.FieldError{Field: "payload_base64", Detail: "and payload are both given: at most one of them"}
	}
	return nil
}

func (p *parser) checkSpec(spec *fsmpb.Spec) error {
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

func (s *scanner) key(o *order) error {
	key, err := s.text("key")
	if err != nil {
		return err
	}
	return o.setKey("key", key)
}

// queue reads a queue's name; the default one is kept as none.
func (s *scanner) queue() (string, error) {
	name, err := s.text("queue")
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

// contentType reads a content type; the default one is kept as none.
func (s *scanner) contentType() (string, error) {
	text, err := s.text("content_type")
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", &task.FieldError{Field: "content_type", Detail: "is empty"}
	case text == task.DefaultContentType:
		return "", nil
	}
	return text, nil
}

// payload reads any JSON value and keeps it as it was written.
func (s *scanner) payload() ([]byte, error) {
	raw, err := s.value()
	if err != nil {
		return nil, err
	}
	return raw, checkPayload("payload", len(raw))
}

func (s *scanner) payloadBase64() ([]byte, error) {
	const name = "payload_base64"
	if s.peek() != '"' {
		return nil, s.wrongType(name, "a string of base64")
	}
	text, err := s.str()
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

// positive reads a duration of more than nothing, in milliseconds.
func (s *scanner) positive(name string, limit time.Duration, limitText string) (int64, error) {
	text, err := s.text(name)
	if err != nil {
		return 0, err
	}
	return positiveField(name, text, limit, limitText)
}
