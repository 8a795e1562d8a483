package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestSource(t *testing.T) {
	for want, of := range map[string]*fsmpb.Task{
		"/v1/queues/default":                    {},
		"/v1/queues/mail":                       {Namespace: "default", Spec: &fsmpb.Spec{Queue: "mail"}},
		"/v1/namespaces/billing/queues/mail":    {Namespace: "billing", Spec: &fsmpb.Spec{Queue: "mail"}},
		"/v1/namespaces/billing/queues/default": {Namespace: "billing"},
	} {
		assert.Equal(t, Source(of), want, "%v", of)
	}
}

func TestDestination(t *testing.T) {
	for url, want := range map[string]string{
		"http://Shop.Example/close?x=1": "http://shop.example:80",
		"https://shop.example.":         "https://shop.example:443",
		"https://shop.example:8443/a/b": "https://shop.example:8443",
		"http://[::1]/":                 "http://[::1]:80",
		"http://[::1]:99/":              "http://[::1]:99",
		"http://x:65535/":               "http://x:65535",
		"http://x:/":                    "http://x:80",
		"kafkas://B,a:1/orders":         "kafkas://a:1,b:9092",
		"amqp://MQ/v?queue=q":           "amqp://mq:5672",
	} {
		if got, err := Destination(url); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", url, got, err, want)
		}
	}
	for _, url := range []string{
		"", "/path", "ftp://x/", "http://", "http://u:p@x/", "http://x/#f", "http://\x00/",
		"http://x:y/", "http://x:0/", "http://x:65536/", "http://x:99999999999999999999/",
		"nats://x/a.>", "amqp://x/", "redis://:secret@x/?stream=s", "kafka://x/",
	} {
		got, err := Destination(url)
		assert.Error(t, err, "%q: accepted as %q", url, got)
	}
}

// CheckName's error has a forbidden character whole, and its position among the characters.
func TestCheckNameNamesTheCharacter(t *testing.T) {
	for name, want := range map[string]string{
		"订单": `has "订" as character 1`, "a订": `has "订" as character 2`, "-a": `has "-" as character 1`,
		"a b": `has " " as character 2`, "a\xff": "is not UTF-8",
	} {
		if err := CheckName("id", name); err == nil || err.Detail != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "0", "order-1042:close~1._x", strings.Repeat("a", 200)} {
		if err := CheckName("id", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", ".", "a/b", "a b", "ä", "a\x00", strings.Repeat("a", 201)} {
		if err := CheckName("id", name); err == nil || err.Field != "id" || err.Limit == "" {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// The largest value that each limit allows passes. One more is refused, and the error names the field.
func TestCheckSpec(t *testing.T) {
	target := func(change func(*fsmpb.Target)) *fsmpb.Spec {
		spec := &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://x/"}}
		change(spec.Target)
		return spec
	}
	headers := func(n, bytes int) []*fsmpb.Header {
		out := make([]*fsmpb.Header, n)
		for i := range out {
			out[i] = &fsmpb.Header{Name: "x-" + string(rune('a'+i%26)), Value: strings.Repeat("v", bytes)}
		}
		return out
	}
	labels := func(n, name, value int) []*fsmpb.Label {
		out := make([]*fsmpb.Label, n)
		for i := range out {
			out[i] = &fsmpb.Label{Name: strings.Repeat("n", name), Value: strings.Repeat("v", value)}
		}
		return out
	}
	auth := func(a *fsmpb.Auth, headers ...string) *fsmpb.Spec {
		t := &fsmpb.Target{Url: "https://x/", Auth: a}
		for _, name := range headers {
			t.Headers = append(t.Headers, &fsmpb.Header{Name: name, Value: "v"})
		}
		return &fsmpb.Spec{Target: t}
	}
	jwt := func(audience, claims string) *fsmpb.Auth {
		return &fsmpb.Auth{Jwt: &fsmpb.Jwt{Audience: audience, Claims: []byte(claims)}}
	}
	claims := func(n, bytes int) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"c%d":""`, i))
		}
		text := "{" + strings.Join(members, ",") + "}"
		return strings.Replace(text, `""`, `"`+strings.Repeat("v", max(bytes-len(text), 0))+`"`, 1)
	}
	url := func(n int) string { return "http://x/" + strings.Repeat("p", n-len("http://x/")) }
	for _, c := range []struct {
		field   string
		allowed *fsmpb.Spec
		refused *fsmpb.Spec
	}{
		{"payload", &fsmpb.Spec{Payload: make([]byte, MaxPayloadBytes)}, &fsmpb.Spec{Payload: make([]byte, MaxPayloadBytes+1)}},
		{"queue", &fsmpb.Spec{Queue: "q"}, &fsmpb.Spec{Queue: "q/"}},
		{"content_type", &fsmpb.Spec{ContentType: "text/plain"}, &fsmpb.Spec{ContentType: "text/plain\r\nx: y"}},
		{"expires_after", &fsmpb.Spec{ExpiresAfterMs: MaxDelay.Milliseconds()}, &fsmpb.Spec{ExpiresAfterMs: -1}},
		{"target.url", target(func(t *fsmpb.Target) { t.Url = url(MaxURLBytes) }), target(func(t *fsmpb.Target) { t.Url = url(MaxURLBytes + 1) })},
		{"target.url", target(func(*fsmpb.Target) {}), target(func(t *fsmpb.Target) { t.Url = "" })},
		{"target.method", target(func(t *fsmpb.Target) { t.Method = "DELETE" }), target(func(t *fsmpb.Target) { t.Method = "HEAD" })},
		{"target.method", target(func(t *fsmpb.Target) { t.Method = "GET" }), &fsmpb.Spec{Payload: []byte("1"), Target: &fsmpb.Target{Url: "http://x/", Method: "GET"}}},
		{"target.method", target(func(t *fsmpb.Target) { t.Method = "PUT" }), &fsmpb.Spec{Target: &fsmpb.Target{Url: "nats://x/s", Method: "PUT"}}},
		{"target.auth", auth(&fsmpb.Auth{ClientCertificate: "shop-2"}), auth(&fsmpb.Auth{})},
		{"target.auth", auth(jwt("a", "")), &fsmpb.Spec{Target: &fsmpb.Target{Url: "nats://x/s", Auth: jwt("a", "")}}},
		{"target.auth.client_certificate", auth(&fsmpb.Auth{ClientCertificate: strings.Repeat("n", 100)}), auth(&fsmpb.Auth{ClientCertificate: strings.Repeat("n", 101)})},
		{"target.auth.client_certificate", auth(&fsmpb.Auth{ClientCertificate: "a.b"}), auth(&fsmpb.Auth{ClientCertificate: "../b"})},
		{"target.auth.client_certificate", auth(&fsmpb.Auth{ClientCertificate: "a"}), target(func(t *fsmpb.Target) { t.Auth = &fsmpb.Auth{ClientCertificate: "a"} })},
		{"target.auth.jwt.audience", auth(jwt(strings.Repeat("a", 255), "")), auth(jwt(strings.Repeat("a", 256), ""))},
		{"target.auth.jwt.audience", target(func(t *fsmpb.Target) { t.Auth = jwt("a", "") }), auth(jwt("", ""))},
		{"target.auth.jwt.algorithm", auth(&fsmpb.Auth{Jwt: &fsmpb.Jwt{Audience: "a", Algorithm: "RS256"}}), auth(&fsmpb.Auth{Jwt: &fsmpb.Jwt{Audience: "a", Algorithm: "HS256"}})},
		{"target.auth.jwt.claims", auth(jwt("a", claims(16, 0))), auth(jwt("a", claims(17, 0)))},
		{"target.auth.jwt.claims", auth(jwt("a", claims(1, 1<<10))), auth(jwt("a", claims(1, 1<<10+1)))},
		{"target.auth.jwt.claims", auth(jwt("a", "{}")), auth(jwt("a", "{}{}"))},
		{"target.auth.jwt.claims", auth(jwt("a", `{"scope":{"sub":1}}`)), auth(jwt("a", "[1]"))},
		{"target.auth.jwt.claims.Sub", auth(jwt("a", `{"subject":1}`)), auth(jwt("a", `{"a":{},"Sub":1}`))},
		{"target.auth.jwt.claims.i\u017fs", auth(jwt("a", `{"jti":1}`)), auth(jwt("a", `{"i\u017fs":1}`))},
		{"target.auth.jwt.claims.belfry_Queue", auth(jwt("a", `{"belfry":1}`)), auth(jwt("a", `{"belfry_Queue":1}`))},
		{"target.auth.jwt.claims.a", auth(jwt("a", `{"a":1,"b":1}`)), auth(jwt("a", `{"a":1,"a":1}`))},
		{"target.headers.Authorization", auth(&fsmpb.Auth{ClientCertificate: "a"}, "Authorization"), auth(jwt("a", ""), "Authorization")},
		{"target.timeout", target(func(t *fsmpb.Target) { t.TimeoutMs = 600_000 }), target(func(t *fsmpb.Target) { t.TimeoutMs = 600_001 })},
		{"target.headers", target(func(t *fsmpb.Target) { t.Headers = headers(32, 1) }), target(func(t *fsmpb.Target) { t.Headers = headers(33, 1) })},
		{"target.headers", target(func(t *fsmpb.Target) { t.Headers = headers(1, 8<<10-3) }), target(func(t *fsmpb.Target) { t.Headers = headers(1, 8<<10-2) })},
		{"retry.max_attempts", &fsmpb.Spec{Retry: &fsmpb.Retry{MaxAttempts: 1000}}, &fsmpb.Spec{Retry: &fsmpb.Retry{MaxAttempts: 1001}}},
		{"retry.max_backoff", &fsmpb.Spec{Retry: &fsmpb.Retry{MaxBackoffMs: MaxBackoff.Milliseconds()}}, &fsmpb.Spec{Retry: &fsmpb.Retry{MaxBackoffMs: MaxBackoff.Milliseconds() + 1}}},
		{"retry.min_backoff", &fsmpb.Spec{Retry: &fsmpb.Retry{MinBackoffMs: 5, MaxBackoffMs: 5}}, &fsmpb.Spec{Retry: &fsmpb.Retry{MinBackoffMs: 6, MaxBackoffMs: 5}}},
		{"retry.delays", delays(32, 1), delays(33, 1)},
		{"retry.delays[0]", delays(1, MaxBackoff.Milliseconds()), delays(1, MaxBackoff.Milliseconds()+1)},
		{"retry.delays[0]", delays(0, 0), delays(1, 0)},
		{"retry.delays", delays(2, 1), &fsmpb.Spec{Retry: &fsmpb.Retry{DelaysMs: []int64{1}, MinBackoffMs: 1}}},
		{"retry.delays", delays(2, 1), &fsmpb.Spec{Retry: &fsmpb.Retry{DelaysMs: []int64{1}, MaxBackoffMs: 1}}},
		{"labels", &fsmpb.Spec{Labels: labels(16, 63, 255)}, &fsmpb.Spec{Labels: labels(17, 63, 255)}},
		{"labels." + strings.Repeat("n", 64), &fsmpb.Spec{}, &fsmpb.Spec{Labels: labels(1, 64, 1)}},
		{"labels.n", &fsmpb.Spec{}, &fsmpb.Spec{Labels: labels(1, 1, 256)}},
	} {
		if err := CheckSpec(c.allowed); err != nil {
			t.Errorf("%s: the limit itself is refused: %v", c.field, err)
		}
		if err := CheckSpec(c.refused); err == nil || err.Field != c.field {
			t.Errorf("%s: got %v", c.field, err)
		}
	}
	payload := []*fsmpb.Header{{Name: "payload", Value: "v"}}
	stream := &fsmpb.Spec{Target: &fsmpb.Target{Url: "redis://x/?stream=s", Headers: payload}}
	if err := CheckSpec(stream); err == nil || err.Field != "target.headers.payload" {
		t.Errorf("a header in the payload's place: got %v", err)
	}
	if err := CheckSpec(target(func(t *fsmpb.Target) { t.Headers = payload })); err != nil {
		t.Errorf("a webhook's header: %v", err)
	}
	list := &fsmpb.Target{Url: "redis://x/?list=l"}
	if err := CheckSpec(&fsmpb.Spec{Target: list}); err != nil {
		t.Errorf("a list: %v", err)
	}
	list.Headers = []*fsmpb.Header{{Name: "x", Value: "v"}}
	if err := CheckSpec(&fsmpb.Spec{Target: list}); err == nil || err.Field != "target.headers" {
		t.Errorf("a list's header: got %v", err)
	}
	for _, name := range []string{"Webhook-Id", "ce-id", "belfry-fence", "Host", "connection", "Transfer-Encoding", "content-type", "", "a b", "ä"} {
		spec := target(func(t *fsmpb.Target) { t.Headers = []*fsmpb.Header{{Name: name, Value: "v"}} })
		if err := CheckSpec(spec); err == nil || !strings.HasPrefix(err.Field, "target.headers.") {
			t.Errorf("header %q: got %v", name, err)
		}
	}
}

// The map from ids to slots is published and never changes.
func TestSlotIsFixed(t *testing.T) {
	for id, want := range map[string]uint32{"order-1042-close": 2121, "a": 1090} {
		if got := Slot("", id); got != want || got != Slot(DefaultNamespace, id) {
			t.Errorf("%s: slot %d, want %d", id, got, want)
		}
	}
}

// delays returns a task that is retried after n delays of ms milliseconds each.
func delays(n int, ms int64) *fsmpb.Spec {
	return &fsmpb.Spec{Retry: &fsmpb.Retry{DelaysMs: slices.Repeat([]int64{ms}, n)}}
}
