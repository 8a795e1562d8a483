package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/contract"
)

const (
	specVersion = "1.0" // of CloudEvents
	eventType   = "belfry.task.fired"
)

// request makes the HTTP request of an attempt that begins now. Its errors are texts for last_error; no retry helps.
func (w *Webhook) request(ctx context.Context, a task.Attempt, now time.Time) (*http.Request, error) {
	spec := a.Task.GetSpec()
	req, err := newRequest(ctx, spec.GetTarget(), spec.GetPayload())
	if err != nil {
		return nil, err
	}
	req.Header = headers(a, w.cfg.Version, now)
	return req, w.authorize(req, a.Task, a.Task.Id, now)
}

// newRequest returns a request without headers. A GET carries no body: a queue's target may have this method, which the
// tasks with a payload do not know.
func newRequest(ctx context.Context, target *fsmpb.Target, body []byte) (*http.Request, error) {
	if target.GetUrl() == "" {
		return nil, errors.New("the task has no webhook target")
	}
	method := cmp.Or(target.Method, http.MethodPost)
	if method == http.MethodGet && len(body) > 0 {
		return nil, errors.New("target.method is GET, and a GET carries no payload")
	}
	req, err := http.NewRequestWithContext(ctx, method, target.Url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("target.url " + urlFault(err))
	}
	if s := req.URL.Scheme; s != "http" && s != "https" || req.URL.Hostname() == "" {
		return nil, errors.New("target.url is not an http or https URL with a host")
	}
	req.URL.RawQuery = targeturl.EscapeQuery(req.URL.RawQuery)
	if method == http.MethodGet { // a transport repeats a GET by itself, unless it has a body that cannot be read twice
		req.Body, req.GetBody = io.NopCloser(req.Body), nil
	}
	return req, nil
}

// urlFault words the error of a URL without quoting the URL, since a query may hold a secret.
func urlFault(err error) string {
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err
	}
	return fmt.Sprintf("is not a URL: %v", err)
}

// headers returns the headers of a request. Names are in lower case, as in the contract and in HTTP/2. A caller's
// header never replaces one of Belfry's: task.CheckSpec refuses those names, and headers enforces the rule a second
// time.
func headers(a task.Attempt, version string, now time.Time) http.Header {
	t, s := a.Task, a.Task.Spec
	h := newHeaderSet(21 + len(s.Target.Headers))
	h.sender(version, s.Target)
	h.webhook(t.WebhookId, now, s.Payload, a.Secrets)
	due := instant(t.FireAtMs)
	h.set("ce-specversion", specVersion)
	h.set("ce-id", ceValue(t.WebhookId))
	h.set("ce-type", eventType)
	h.set("ce-source", ceValue(task.Source(t)))
	h.set("ce-subject", ceValue(t.Id))
	h.set("ce-time", due)
	h.set("belfry-attempt", strconv.FormatUint(uint64(t.Attempts), 10))
	h.set("belfry-fence", strconv.FormatUint(t.Fence, 10))
	h.set("belfry-due", due)
	if s.Group != "" {
		h.set("belfry-group", s.Group)
	}
	if schedule, number, ok := task.SplitOccurrence(t.Id); ok {
		h.set("belfry-schedule", schedule)
		h.set("belfry-occurrence", strconv.FormatUint(number, 10))
		h.set("belfry-scheduled", instant(task.ScheduledMs(t)))
	}
	if len(s.Payload) > 0 {
		h.set("content-type", task.ContentType(s))
	}
	if trace := a.Trace(); isTraceparent(trace) {
		h.set("traceparent", trace)
	}
	return h.header
}

// sender sets the user-agent and the target's own headers.
func (h *headerSet) sender(version string, target *fsmpb.Target) {
	h.set("User-Agent", "belfry/"+version) // the transport looks for this spelling
	for _, own := range target.Headers {
		h.set(callerName(own.Name), own.Value)
	}
}

// webhook sets the three headers of Standard Webhooks. Without secrets there is no webhook-signature.
func (h *headerSet) webhook(id string, now time.Time, body []byte, secrets [][]byte) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	h.set("webhook-id", id)
	h.set("webhook-timestamp", timestamp)
	if len(secrets) > 0 {
		h.set("webhook-signature", signature(secrets, id, timestamp, body))
	}
}

// callerName returns the map key of a caller's header: lower case, except for User-Agent, which the transport looks
// for.
func callerName(name string) string {
	if name = strings.ToLower(name); name == "user-agent" {
		return "User-Agent"
	}
	return name
}

// instant returns Unix milliseconds as the contract writes instants.
func instant(ms int64) string { return strings.Trim(string(contract.AppendInstant(nil, ms)), `"`) }

// isTraceparent reports whether s may be passed on as a traceparent. Receivers must ignore a malformed one (W3C Trace
// Context), so a malformed one is left out and never fails the delivery.
func isTraceparent(s string) bool {
	const shortest = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(s) < shortest {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	}) < 0
}

// headerSet fills a http.Header whose values share one slice, instead of one allocation each.
type headerSet struct {
	header http.Header
	values []string
}

func newHeaderSet(n int) headerSet {
	return headerSet{header: make(http.Header, n), values: make([]string, 0, n)}
}

func (h *headerSet) set(name, value string) {
	n := len(h.values)
	h.values = append(h.values, value)
	h.header[name] = h.values[n : n+1 : n+1]
}

// ceValue encodes an attribute's value for a header: space, double quote, percent sign and all characters outside
// printable ASCII are percent-encoded as UTF-8 (CloudEvents HTTP protocol binding 1.0.2, section 3.1.3.2). Invalid
// UTF-8 becomes the replacement character first, since an attribute is a Unicode string.
func ceValue(s string) string {
	i := 0
	for i < len(s) && cePlain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	out := []byte(s[:i])
	for rest := strings.ToValidUTF8(s[i:], "\uFFFD"); rest != ""; rest = rest[1:] {
		if c := rest[0]; cePlain(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

func cePlain(c byte) bool { return '!' <= c && c <= '~' && c != '"' && c != '%' }
