package delivery

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// capture returns a receiver's URL, and a channel of the requests' header lines as they were on the wire.
func capture(t *testing.T) (string, <-chan []string) {
	lines := make(chan []string, 1)
	addr := listen(t, func(c net.Conn) {
		var got []string
		in := bufio.NewScanner(c)
		for in.Scan() && in.Text() != "" {
			got = append(got, in.Text())
		}
		write(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
		lines <- got
		untilGone(c)
	})
	return "http://" + addr, lines
}

// TestHeaders compares the request on the wire with the contract, header by header.
func TestHeaders(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	base := map[string]string{
		"User-Agent":        "belfry/1.2.3",
		"webhook-id":        "msg_5-8841-1",
		"webhook-timestamp": "1795255201",
		"ce-specversion":    "1.0",
		"ce-id":             "msg_5-8841-1",
		"ce-type":           "belfry.task.fired",
		"ce-source":         "/v1/queues/default",
		"ce-subject":        "order-1042-close",
		"ce-time":           "2026-11-21T10:00:00.007Z",
		"belfry-attempt":    "2",
		"belfry-fence":      "8842",
		"belfry-due":        "2026-11-21T10:00:00.007Z",
		"content-type":      "application/json",
		"Content-Length":    "15",
	}
	tests := map[string]struct {
		change func(*fsmpb.Task)
		want   map[string]string // beside base; empty: absent
	}{
		"plain": {func(*fsmpb.Task) {}, nil},
		"queue": {func(t *fsmpb.Task) { t.Spec.Queue = "mail:eu~1" },
			map[string]string{"ce-source": "/v1/queues/mail:eu~1"}},
		"namespace": {func(t *fsmpb.Task) { t.Namespace, t.Spec.Queue = "billing", "mail" },
			map[string]string{"ce-source": "/v1/namespaces/billing/queues/mail"}},
		"default namespace": {func(t *fsmpb.Task) { t.Namespace = "default" }, nil},
		"trace":             {func(t *fsmpb.Task) { t.Spec.Traceparent = trace }, map[string]string{"traceparent": trace}},
		"bad trace":         {func(t *fsmpb.Task) { t.Spec.Traceparent = trace + "\r\nx: y" }, nil},
		"type": {func(t *fsmpb.Task) { t.Spec.ContentType = "text/plain; charset=utf-8" },
			map[string]string{"content-type": "text/plain; charset=utf-8"}},
		"bytes": {func(t *fsmpb.Task) { t.Spec.PayloadIsBytes = true },
			map[string]string{"content-type": "application/octet-stream"}},
		"bytes with a type": {func(t *fsmpb.Task) { t.Spec.PayloadIsBytes, t.Spec.ContentType = true, "application/json" }, nil},
		"no payload": {func(t *fsmpb.Task) { t.Spec.Payload = nil; t.Spec.ContentType = "text/plain" },
			map[string]string{"content-type": "", "Content-Length": "0"}},
		"caller's": {func(t *fsmpb.Task) {
			t.Spec.Target.Headers = []*fsmpb.Header{
				{Name: "authorization", Value: "Bearer x"}, {Name: "x-Shop", Value: "café 1%"},
				{Name: "user-agent", Value: "mine"}}
		}, map[string]string{"authorization": "Bearer x", "x-shop": "café 1%", "User-Agent": "mine"}},
		"caller's never win": {func(t *fsmpb.Task) {
			t.Spec.Target.Headers = []*fsmpb.Header{{Name: "Webhook-Id", Value: "forged"}, {Name: "ce-id", Value: "forged"}}
		}, nil},
		"occurrence": {func(t *fsmpb.Task) { t.Id = "nightly@42" },
			map[string]string{"ce-subject": "nightly@42", "belfry-schedule": "nightly", "belfry-occurrence": "42",
				"belfry-scheduled": "2026-11-21T10:00:00.007Z"}},
		"occurrence with jitter": {func(t *fsmpb.Task) { t.Id, t.Spec.ScheduledMs = "nightly@42", t.FireAtMs-7 },
			map[string]string{"ce-subject": "nightly@42", "belfry-schedule": "nightly", "belfry-occurrence": "42",
				"belfry-scheduled": "2026-11-21T10:00:00.000Z"}},
		"encoded": {func(t *fsmpb.Task) { t.Id = `a "b" 100% €` },
			map[string]string{"ce-subject": "a%20%22b%22%20100%25%20%E2%82%AC"}},
	}
	now := time.Unix(1795255201, 999e6)
	w := newWebhook(t, func(c *Config) { c.Now = func() time.Time { return now } })
	url, lines := capture(t)
	host := strings.TrimPrefix(url, "http://")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if out := w.Deliver(t.Context(), attemptOf(url+"/close?a=b", test.change)); !out.Delivered {
				t.Fatalf("outcome %+v", out)
			}
			want := map[string]string{"Host": host}
			for _, set := range []map[string]string{base, test.want} {
				for k, v := range set {
					if want[k] = v; v == "" {
						delete(want, k)
					}
				}
			}
			got := <-lines
			assert.Equal(t, got[0], "POST /close?a=b HTTP/1.1", "request line")
			assert.Equal(t, cmp.Diff(want, fields(t, got[1:])), "", "headers (-want +got)")
		})
	}
}

func fields(t *testing.T, lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if _, twice := out[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		out[name] = value
	}
	return out
}

func TestCEValue(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"plain!#$&'~":      "plain!#$&'~",
		"Euro € 😀":         "Euro%20%E2%82%AC%20%F0%9F%98%80", // the standard's own example
		`"`:                "%22",
		"%20":              "%2520",
		"a\r\nx: y\x00":    "a%0D%0Ax:%20y%00",
		"\xff":             "%EF%BF%BD",
		"tab\tdelete\x7f.": "tab%09delete%7F.",
	} {
		assert.Equal(t, ceValue(in), want, "ceValue(%q)", in)
	}
}

// FuzzHeaders checks for any task that a server reads its request back unchanged, and that no header is smuggled in.
func FuzzHeaders(f *testing.F) {
	f.Add("id", "queue", "wid", "text/plain", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("a\r\nb: c", "q\x00", "w\xff", "", "x\ny")
	f.Add("id", "", "wid", "", "")
	f.Fuzz(func(t *testing.T, id, queue, webhookID, contentType, traceparent string) {
		a := attemptOf("http://127.0.0.1/", func(t *fsmpb.Task) {
			t.Id, t.Spec.Queue, t.WebhookId = id, queue, ceValue(webhookID)
			t.Spec.Traceparent = traceparent
			if strings.IndexFunc(contentType, func(r rune) bool { return r < 0x20 || r == 0x7f }) < 0 {
				t.Spec.ContentType = contentType
			}
		})
		w := &Webhook{cfg: Config{Version: "dev"}}
		req, err := w.request(t.Context(), a, time.Unix(1, 0))
		assert.NoError(t, err)
		var wire bytes.Buffer
		assert.NoError(t, req.Write(&wire))
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		assert.NoError(t, err)
		if len(got.Header) > len(req.Header)+1 { // content-length
			t.Errorf("sent %v, got %v", req.Header, got.Header)
		}
		subject, want := got.Header.Get("Ce-Subject"), ceValue(a.Task.Id)
		assert.Equal(t, subject, want, "ce-subject")
	})
}

// TestURLsOnTheWire checks that the request line has no character that HTTP does not permit, whatever is in the path or
// the query of the target, and that escapes stay as they are.
func TestURLsOnTheWire(t *testing.T) {
	w := newWebhook(t)
	url, lines := capture(t)
	for given, want := range map[string]string{
		"/a b?c=d e":               "/a%20b?c=d%20e",
		`/"<ü>"?q="<ü>"`:           "/%22%3C%C3%BC%3E%22?q=%22%3C%C3%BC%3E%22",
		"/%2F%c3%bc?q=%2F%c3%bc+x": "/%2F%c3%bc?q=%2F%c3%bc+x",
		"/x?filter[a]=1&b=/?:@!$'": "/x?filter[a]=1&b=/?:@!$'",
		"/x?{|}^`\\":               "/x?%7B%7C%7D%5E%60%5C",
		"/x?":                      "/x?",
	} {
		if out := w.Deliver(t.Context(), attemptOf(url+given, func(*fsmpb.Task) {})); !out.Delivered {
			t.Errorf("%s: outcome %+v", given, out)
			continue
		}
		if got := <-lines; got[0] != "POST "+want+" HTTP/1.1" {
			t.Errorf("%s: request line %q, not of %s", given, got[0], want)
		}
	}
}
