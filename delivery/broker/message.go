package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

const (
	eventType   = "belfry.task.fired"
	instantForm = "2006-01-02T15:04:05.000Z"
)

type header struct{ name, value string }

// message is what every broker is given, each in its own way.
type message struct {
	id          string // webhook-id: one for all attempts of an occurrence
	fence       string // rises with every grant of the task
	contentType string // empty without a payload
	at          time.Time
	headers     []header // ours, then the caller's; no name is there twice
	payload     []byte
}

// newMessage makes the message of an attempt that begins now.
func newMessage(t *fsmpb.Task, kind targeturl.Kind, now time.Time) *message {
	s := t.GetSpec()
	m := &message{
		id: t.GetWebhookId(), fence: strconv.FormatUint(t.GetFence(), 10), at: now, payload: s.GetPayload(),
		headers: make([]header, 0, 12+len(s.GetTarget().GetHeaders())),
	}
	if len(m.payload) > 0 {
		m.contentType = orElse(s.GetContentType(), task.DefaultContentType)
	}
	m.describe(t, attributePrefix(kind))
	for _, h := range s.GetTarget().GetHeaders() {
		m.add(strings.ToLower(h.GetName()), h.GetValue())
	}
	return m
}

// attributePrefix is what the CloudEvents binding of a protocol puts before an attribute's name.
func attributePrefix(kind targeturl.Kind) string {
	if kind == targeturl.Kafka {
		return "ce_"
	}
	return "ce-"
}

// describe adds what a webhook's receiver gets as headers, too. None of it needs to be encoded: task.CheckSpec lets
// only ASCII without spaces into ids and queue names, and the rest is ours.
func (m *message) describe(t *fsmpb.Task, ce string) {
	due := time.UnixMilli(t.GetFireAtMs()).UTC().Format(instantForm)
	m.add("webhook-id", m.id)
	m.add(ce+"specversion", "1.0")
	m.add(ce+"id", m.id)
	m.add(ce+"type", eventType)
	m.add(ce+"source", "/v1/queues/"+orElse(t.GetSpec().GetQueue(), task.DefaultQueue))
	m.add(ce+"subject", t.GetId())
	m.add(ce+"time", due)
	m.add("belfry-attempt", strconv.FormatUint(uint64(t.GetAttempts()), 10))
	m.add("belfry-fence", m.fence)
	m.add("belfry-due", due)
	if m.contentType != "" {
		m.add("content-type", m.contentType)
	}
	if trace := t.GetSpec().GetTraceparent(); isTraceparent(trace) {
		m.add("traceparent", trace)
	}
}

// isTraceparent tells whether s could be one: whoever gets a malformed one must ignore it (W3C Trace Context).
func isTraceparent(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz-") == ""
}

// add leaves the first value of a name: a caller's header never replaces one of ours (task.CheckSpec refuses those
// names, this holds if it once did not).
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
