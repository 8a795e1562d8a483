package broker

import (
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
