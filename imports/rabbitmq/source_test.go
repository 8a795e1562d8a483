package rabbitmq

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/belfryhq/belfry/internal/assert"
)

var now = time.Date(2030, 1, 1, 10, 0, 0, 0, time.UTC)

// shown returns the record of a message in one line.
func shown(o Options, m amqp.Delivery) string {
	o.Queue = "wait"
	s := &Source{o: o, base: "amqp://rabbit:5672/", now: func() time.Time { return now }}
	r := s.record(&m)
	if r.Err != nil {
		return "! " + r.Err.Error()
	}
	t := &r.Task
	return fmt.Sprintf("%s %s %s %s%s %s %v", t.ID, t.FireAt.Format("15:04:05.999"), t.Target.URL, t.Payload, t.PayloadBytes,
		t.ContentType, t.Target.Headers)
}

func death(queue string, count int64, ago time.Duration) amqp.Table {
	return amqp.Table{"x-death": []any{
		amqp.Table{"queue": queue, "count": count, "time": now.Add(-ago)}, amqp.Table{"queue": "first", "count": int64(1)},
	}}
}

func TestMessages(t *testing.T) {
	hour := Options{TTL: time.Hour, Exchange: "work"}
	stamped := amqp.Delivery{MessageId: "m", RoutingKey: "a.b", Timestamp: now.Add(-time.Minute)}
	with := func(change func(*amqp.Delivery)) amqp.Delivery {
		m := stamped
		change(&m)
		return m
	}
	const to = " amqp://rabbit:5672/?exchange=work&routing_key=a.b "
	for _, c := range []struct {
		o    Options
		m    amqp.Delivery
		want string
	}{
		{hour, stamped, "rabbitmq:wait:m 10:59:01" + to + "  map[]"},
		{hour, with(func(m *amqp.Delivery) { m.Expiration = "60000" }), "rabbitmq:wait:m 10:00:01" + to},
		{hour, with(func(m *amqp.Delivery) { m.Expiration = "7200000" }), "rabbitmq:wait:m 10:59:01" + to},
		{hour, with(func(m *amqp.Delivery) { m.Timestamp = now }), "rabbitmq:wait:m 11:00:01" + to},
		{hour, with(func(m *amqp.Delivery) { m.Timestamp = now.Add(time.Minute) }), "rabbitmq:wait:m 11:00:00.001" + to},
		{hour, with(func(m *amqp.Delivery) { m.Timestamp = time.Time{} }), "rabbitmq:wait:m 11:00:00.001" + to},
		{hour, with(func(m *amqp.Delivery) { m.Headers = amqp.Table{"timestamp_in_ms": now.UnixMilli() - 1500} }),
			"rabbitmq:wait:m 10:59:58.5" + to},
		{hour, with(func(m *amqp.Delivery) { m.Headers = death("work", 1, 10*time.Second) }), "rabbitmq:wait:m 10:59:51" + to},
		{hour, with(func(m *amqp.Delivery) { m.Headers = death("work", 2, time.Hour) }), "rabbitmq:wait:m 11:00:00.001" + to},
		{hour, with(func(m *amqp.Delivery) { m.Headers = death("wait", 1, time.Hour) }), "rabbitmq:wait:m 11:00:00.001" + to},
		{Options{TTL: time.Hour, Exchange: "work", FromNow: true}, stamped, "rabbitmq:wait:m 11:00:00.001" + to},
		{Options{TTL: time.Hour, RoutingKey: "m q"}, stamped, "rabbitmq:wait:m 10:59:01 amqp://rabbit:5672/?queue=m+q "},
		{hour, with(func(m *amqp.Delivery) { m.Body, m.ContentType = []byte(`{"n": 1}`), "application/json" }),
			"rabbitmq:wait:m 10:59:01" + to + `{"n": 1} application/json map[]`},
		{hour, with(func(m *amqp.Delivery) { m.Body, m.ContentType = []byte("12"), "text/plain" }),
			"rabbitmq:wait:m 10:59:01" + to + `12 text/plain map[]`},
		{hour, with(func(m *amqp.Delivery) { m.Body, m.Headers = []byte("\xff"), amqp.Table{"tenant": "a"} }),
			"rabbitmq:wait:m 10:59:01" + to + "\xff application/octet-stream map[tenant:a]"},
		{Options{}, stamped, "! " + errNoTTL.Error()},
		{hour, with(func(m *amqp.Delivery) {
			m.CorrelationId, m.Headers = "c", amqp.Table{"n": int32(1), "X-Up": "x"}
		}), "! a target cannot carry correlation_id, header X-Up, header n: leave them out with --lossy"},
		{Options{TTL: time.Hour, Exchange: "work", Lossy: true}, with(func(m *amqp.Delivery) { m.CorrelationId = "c" }),
			"rabbitmq:wait:m 10:59:01" + to},
	} {
		if got := shown(c.o, c.m); !strings.HasPrefix(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	anonymous := with(func(m *amqp.Delivery) { m.MessageId = "" })
	if first, second := shown(hour, anonymous), shown(hour, anonymous); first == second {
		t.Error("two messages without an id are one task")
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"amqp://u:secret@h/":         "amqp://h:5672/",
		"amqps://h:1/%2F":            "amqps://h:1/",
		"amqp://h/a%2Fb":             "amqp://h:5672/a%2Fb",
		"http://secret@h/":           "",
		"amqp://u:secret@h:port/":    "",
		"amqp://u:secret@127.0.0.1:": "amqp://127.0.0.1:5672/",
	} {
		base, err := baseOf(text)
		assert.Equal(t, base, want, "%s", text)
		if want == "" {
			assert.ErrorIs(t, err, errURL)
		}
	}
	_, err := Open(Options{URL: "amqp://u:secret@127.0.0.1:1/", Queue: "q"})
	assert.Error(t, err)
	if strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
