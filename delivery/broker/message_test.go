package broker

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestMessage(t *testing.T) {
	now := time.Unix(1_700_000_001, 0)
	fields := func(kind targeturl.Kind, change ...func(*fsmpb.Task)) map[string]string {
		m := newMessage(attemptOf("nats://h/s", change...), kind, now)
		out := map[string]string{}
		for _, h := range m.headers {
			if _, twice := out[h.name]; twice {
				t.Errorf("%s is there twice", h.name)
			}
			out[h.name] = h.value
		}
		return out
	}
	want := map[string]string{
		"webhook-id": "w-order-1042", "belfry-attempt": "1", "belfry-fence": "77", "belfry-due": "2023-11-14T22:13:20.123Z",
		"ce-specversion": "1.0", "ce-id": "w-order-1042", "ce-type": "belfry.task.fired", "ce-source": "/v1/queues/orders",
		"ce-subject": "order-1042", "ce-time": "2023-11-14T22:13:20.123Z", "content-type": "application/json",
	}
	assert.Equal(t, cmp.Diff(want, fields(targeturl.NATS)), "", "(-want +got)")
	got := fields(targeturl.Redis, func(t *fsmpb.Task) {
		t.Spec.Queue, t.Spec.Payload, t.Spec.Traceparent = "", nil, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		t.Spec.Target.Headers = []*fsmpb.Header{{Name: "X-Shop", Value: "1"}, {Name: "ce-id", Value: "forged"}}
	})
	delete(want, "content-type")
	want["ce-source"], want["x-shop"] = "/v1/queues/default", "1"
	want["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	assert.Equal(t, cmp.Diff(want, got), "", "without a payload (-want +got)")
	got = fields(targeturl.NATS, func(t *fsmpb.Task) { t.Namespace = "billing" })
	assert.Equal(t, got["ce-source"], "/v1/namespaces/billing/queues/orders", "the source of another namespace")
	if got := fields(targeturl.Kafka); got["ce_id"] != "w-order-1042" || got["ce-id"] != "" {
		t.Errorf("kafka: %v", got)
	}
	got = fields(targeturl.NATS, func(t *fsmpb.Task) { t.Id = "nightly@42" })
	if got["belfry-schedule"] != "nightly" || got["belfry-occurrence"] != "42" || got["ce-subject"] != "nightly@42" ||
		got["belfry-scheduled"] != got["belfry-due"] {
		t.Errorf("an occurrence of a schedule: %v", got)
	}
	if got := fields(targeturl.NATS, func(t *fsmpb.Task) { t.Spec.Traceparent = "a\r\nb: c" }); got["traceparent"] != "" {
		t.Errorf("a malformed traceparent: %v", got)
	}
}

// TestAsPublished checks that a message with properties of its own gets these, its delay negated, and the headers by
// which a consumer recognises a repeat.
func TestAsPublished(t *testing.T) {
	// The headers x-delay (5, int32), webhook-id ("old") and n (int8), delivery mode 1, message-id "m", user "u".
	properties := "\x30\x90\x00\x00\x00\x24\x07x-delayI\x00\x00\x00\x05\x0awebhook-idS\x00\x00\x00\x03old\x01nb\x07\x01\x01m\x01u"
	for text, want := range map[string]string{
		base64.StdEncoding.EncodeToString([]byte(properties)):     "",
		base64.StdEncoding.EncodeToString([]byte(properties[:9])): "malformed",
		"%": "is not base64",
	} {
		a := attemptOf("amqp://h/?exchange=x", func(t *fsmpb.Task) {
			t.WebhookId, t.Fence, t.Spec.Payload = "new", 9, []byte("body")
			t.Spec.Target.Headers = []*fsmpb.Header{{Name: "amqp-properties", Value: text}}
		})
		p, err := publishing(newMessage(a, targeturl.AMQP, time.Now()))
		if want != "" {
			var f *failure
			if !errors.As(err, &f) || !f.permanent || !strings.Contains(f.text, want) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		assert.NoError(t, err)
		if p.MessageId != "m" || p.DeliveryMode != 1 || p.UserId != "" || p.AppId != "" || string(p.Body) != "body" ||
			p.Headers["x-delay"] != int32(-5) || p.Headers["n"] != int8(7) || p.Headers["webhook-id"] != "new" ||
			p.Headers["belfry-fence"] != "9" || p.Headers["ce-id"] != nil || p.Headers["amqp-properties"] != nil {
			t.Errorf("%+v", p)
		}
	}
}
