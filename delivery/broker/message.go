package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

const (
	eventType   = "belfry.task.fired"
	instantForm = "2006-01-02T15:04:05.000Z"
)

type header struct{ name, value string }

// message is the data that every broker gets, each in its own form.
type message struct {
	id          string // the webhook-id, the same for all attempts of an occurrence
	fence       string // rises with every grant of the task
	contentType string // empty without a payload
	at          time.Time
	headers     []header // Belfry's, then the caller's; each name once
	payload     []byte
}

// newMessage makes the message of an attempt that begins now.
func newMessage(a task.Attempt, kind targeturl.Kind, now time.Time) *message {
	t, s := a.Task, a.Task.GetSpec()
	m := &message{
		id: t.GetWebhookId(), fence: strconv.FormatUint(t.GetFence(), 10), at: now, payload: s.GetPayload(),
		headers: make([]header, 0, 12+len(s.GetTarget().GetHeaders())),
	}
	if len(m.payload) > 0 {
		m.contentType = task.ContentType(s)
	}
	m.describe(a, attributePrefix(kind))
	for _, h := range s.GetTarget().GetHeaders() {
		m.add(strings.ToLower(h.GetName()), h.GetValue())
	}
	return m
}

// attributePrefix returns the prefix of attribute names in the CloudEvents binding of a protocol.
func attributePrefix(kind targeturl.Kind) string {
	switch kind {
	case targeturl.Kafka:
		return "ce_"
	case targeturl.RocketMQ: // of CloudEvents' library for Java: there is no binding yet
		return "CE_"
	}
	return "ce-"
}

// describe adds the headers that a webhook's receiver would get too. Their values need no encoding: task.CheckSpec
// admits only ASCII without spaces in ids and queue names, and the other values are Belfry's own.
func (m *message) describe(a task.Attempt, ce string) {
	t := a.Task
	due := time.UnixMilli(t.GetFireAtMs()).UTC().Format(instantForm)
	m.add("webhook-id", m.id)
	m.add(ce+"specversion", "1.0")
	m.add(ce+"id", m.id)
	m.add(ce+"type", eventType)
	m.add(ce+"source", task.Source(t))
	m.add(ce+"subject", t.GetId())
	m.add(ce+"time", due)
	m.add("belfry-attempt", strconv.FormatUint(uint64(t.GetAttempts()), 10))
	m.add("belfry-fence", m.fence)
	m.add("belfry-due", due)
	if group := t.GetSpec().GetGroup(); group != "" {
		m.add("belfry-group", group)
	}
	if schedule, number, ok := task.SplitOccurrence(t.GetId()); ok {
		m.add("belfry-schedule", schedule)
		m.add("belfry-occurrence", strconv.FormatUint(number, 10))
		m.add("belfry-scheduled", time.UnixMilli(task.ScheduledMs(t)).UTC().Format(instantForm))
	}
	if m.contentType != "" {
		m.add("content-type", m.contentType)
	}
	if trace := a.Trace(); isTraceparent(trace) {
		m.add("traceparent", trace)
	}
}

// isTraceparent reports whether s may be a traceparent. Receivers must ignore a malformed one (W3C Trace Context).
func isTraceparent(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz-") == ""
}

// add adds a header unless the name is there already, so that a caller's header never replaces one of Belfry's.
// task.CheckSpec refuses those names, and add enforces the rule a second time.
func (m *message) add(name, value string) {
	for _, h := range m.headers {
		if h.name == name {
			return
		}
	}
	m.headers = append(m.headers, header{name, value})
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
