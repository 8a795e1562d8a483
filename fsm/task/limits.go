package task

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// The contract has these limits. Sizes are in bytes.
const (
	MaxNameBytes       = 200 // id, queue
	MaxPayloadBytes    = 256 << 10
	MaxLabels          = 16
	MaxLabelNameBytes  = 63
	MaxLabelValueBytes = 255
	MaxHeaders         = 32
	MaxHeaderBytes     = 8 << 10 // names and values of one task together
	MaxURLBytes        = 2 << 10
	MaxKeyBytes        = 255
	MaxContentType     = 255
	MaxAttempts        = 1000
	MaxRetryDelays     = 32
	MaxErrorBytes      = 512 // of last_error; a longer text is cut

	MaxDelay     = 100 * 365 * 24 * time.Hour // bounds fire_at, too
	MaxBackoff   = 7 * 24 * time.Hour
	MaxTimeout   = 10 * time.Minute
	MaxListLimit = 1000
)

// A task has these values if neither the task nor its queue sets them.
const (
	DefaultNamespace   = "default"
	DefaultQueue       = "default"
	DefaultContentType = "application/json"
	DefaultBytesType   = "application/octet-stream" // of a payload that came as payload_base64
	DefaultMaxAttempts = 10
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 10 * time.Minute
	DefaultTimeout     = 15 * time.Second
	DefaultKeepDone    = 10 * time.Minute
	DefaultListLimit   = 100
)

// CheckName checks a task id or a queue name. field is the caller's name for the value.
func CheckName(field, name string) *FieldError {
	const rule = "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}"
	if name == "" {
		return &FieldError{Field: field, Detail: "is empty", Limit: rule}
	}
	for i, c := range name { // all before i are one byte long
		if !isAlphanumeric(c) && (i == 0 || !strings.ContainsRune("._:~-", c)) {
			_, width := utf8.DecodeRuneInString(name[i:])
			if c == utf8.RuneError && width == 1 {
				return &FieldError{Field: field, Detail: "is not UTF-8", Limit: rule}
			}
			return &FieldError{Field: field, Detail: fmt.Sprintf("has %q as character %d", name[i:i+width], i+1), Limit: rule}
		}
	}
	if n := len(name); n > MaxNameBytes {
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %d characters long", n), Limit: rule}
	}
	return nil
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// CheckSpec checks everything about a task except its id and its time.
func CheckSpec(s *fsmpb.Spec) *FieldError {
	if err := checkOne(s); err != nil {
		return err
	}
	if s.OnDelivered == nil && s.OnDead == nil {
		return nil
	}
	if n := PayloadBytes(s); n > MaxPayloadBytes {
		return &FieldError{Field: "payload", Detail: fmt.Sprintf("and those of the follow-ups are %d bytes together", n),
			Limit: fmt.Sprintf("%d bytes", MaxPayloadBytes)}
	}
	return checkFollowUps(s.OnDelivered, s.OnDead)
}

// checkOne is CheckSpec without the follow-ups.
func checkOne(s *fsmpb.Spec) *FieldError {
	if s.Queue != "" {
		if err := CheckName("queue", s.Queue); err != nil {
			return err
		}
	}
	if n := len(s.Payload); n > MaxPayloadBytes {
		return tooLarge("payload", n, MaxPayloadBytes)
	}
	if n := len(s.ContentType); n > MaxContentType {
		return tooLarge("content_type", n, MaxContentType)
	}
	if bad := strings.IndexFunc(s.ContentType, isControl); bad >= 0 {
		return &FieldError{Field: "content_type", Detail: "has a control character"}
	}
	if s.ExpiresAfterMs < 0 || s.ExpiresAfterMs > MaxDelay.Milliseconds() {
		return &FieldError{Field: "expires_after", Detail: "is out of range", Limit: "0s to 100 years"}
	}
	if err := checkTarget(s.Target); err != nil {
		return err
	}
	if s.Target.GetMethod() == http.MethodGet && len(s.Payload) > 0 {
		return &FieldError{Field: "target.method", Detail: "is GET, and a GET carries no payload"}
	}
	if err := checkRetry(s.Retry); err != nil {
		return err
	}
	if err := checkOrder(s); err != nil {
		return err
	}
	return checkLabels(s.Labels)
}

func checkTarget(t *fsmpb.Target) *FieldError {
	if t == nil {
		return nil
	}
	if t.Url == "" {
		return &FieldError{Field: "target.url", Detail: "is absent or empty"}
	}
	if n := len(t.Url); n > MaxURLBytes {
		return tooLarge("target.url", n, MaxURLBytes)
	}
	to, err := targeturl.Parse(t.Url)
	if err != nil {
		return &FieldError{Field: "target.url", Detail: err.Error()}
	}
	if t.TimeoutMs < 0 || t.TimeoutMs > MaxTimeout.Milliseconds() {
		return &FieldError{Field: "target.timeout", Detail: "is out of range",
			Limit: "more than 0s, at most " + MaxTimeout.String()}
	}
	if err := checkMethod(to, t.Method); err != nil {
		return err
	}
	if err := checkHeaders(t.Headers); err != nil {
		return err
	}
	if err := checkAuth(to, t); err != nil {
		return err
	}
	return checkFields(to, t.Headers)
}

// MethodNames are the methods of webhooks' requests.
const MethodNames = "POST, PUT, PATCH, DELETE, GET"

// checkMethod checks the method of a webhook; "" is POST. A broker has none.
func checkMethod(to *targeturl.Target, method string) *FieldError {
	const field = "target.method"
	switch {
	case method == "":
		return nil
	case to.Kind != targeturl.HTTP:
		return &FieldError{Field: field, Detail: "is only for http and https targets"}
	case !slices.Contains(strings.Split(MethodNames, ", "), method):
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %.20q", method), Limit: MethodNames}
	}
	return nil
}

// checkFields refuses headers that a place in Redis cannot have. A stream's entry has one field for each header and one
// for the payload, and a list's element is the payload alone.
func checkFields(to *targeturl.Target, headers []*fsmpb.Header) *FieldError {
	if to.List != "" && len(headers) > 0 {
		return &FieldError{Field: "target.headers", Detail: "has no place in a list, which gets the payload alone"}
	}
	for _, h := range headers {
		if to.Kind == targeturl.Redis && strings.EqualFold(h.Name, targeturl.PayloadField) {
			return &FieldError{Field: "target.headers." + h.Name, Detail: "is reserved: that field has the payload"}
		}
	}
	return nil
}

func checkHeaders(headers []*fsmpb.Header) *FieldError {
	const field = "target.headers"
	if n := len(headers); n > MaxHeaders {
		return &FieldError{Field: field, Detail: fmt.Sprintf("has %d headers", n), Limit: fmt.Sprint(MaxHeaders)}
	}
	total := 0
	for _, h := range headers {
		total += len(h.Name) + len(h.Value)
		if err := checkHeader(h); err != nil {
			return err
		}
	}
	if total > MaxHeaderBytes {
		return tooLarge(field, total, MaxHeaderBytes)
	}
	return nil
}

func checkHeader(h *fsmpb.Header) *FieldError {
	field := "target.headers." + h.Name
	if h.Name == "" || strings.IndexFunc(h.Name, notToken) >= 0 {
		return &FieldError{Field: field, Detail: "is not a header name"}
	}
	if strings.IndexFunc(h.Value, func(r rune) bool { return r != '\t' && isControl(r) }) >= 0 {
		return &FieldError{Field: field, Detail: "has a control character in its value"}
	}
	if reservedHeader(strings.ToLower(h.Name)) {
		return &FieldError{Field: field, Detail: "is reserved: webhook-*, ce-*, belfry-*, host, content-type, " +
			"content-length, traceparent and hop-by-hop headers may not be set"}
	}
	return nil
}

// reservedHeader reports whether Belfry, or the connection, sets this header itself.
func reservedHeader(name string) bool {
	for _, prefix := range []string{"webhook-", "ce-", "belfry-", "proxy-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "host", "content-type", "content-length", "traceparent",
		"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect":
		return true
	}
	return false
}

func checkRetry(r *fsmpb.Retry) *FieldError {
	if r == nil {
		return nil
	}
	if r.MaxAttempts > MaxAttempts {
		return &FieldError{Field: "retry.max_attempts", Detail: fmt.Sprintf("is %d", r.MaxAttempts),
			Limit: fmt.Sprintf("1 to %d", MaxAttempts)}
	}
	for _, b := range []struct {
		field string
		ms    int64
	}{{"retry.min_backoff", r.MinBackoffMs}, {"retry.max_backoff", r.MaxBackoffMs}} {
		if b.ms < 0 || b.ms > MaxBackoff.Milliseconds() {
			return &FieldError{Field: b.field, Detail: "is out of range", Limit: "more than 0s, at most 7d"}
		}
	}
	if r.MinBackoffMs > 0 && r.MaxBackoffMs > 0 && r.MinBackoffMs > r.MaxBackoffMs {
		return &FieldError{Field: "retry.min_backoff", Detail: "is longer than retry.max_backoff"}
	}
	return checkDelays(r)
}

func checkDelays(r *fsmpb.Retry) *FieldError {
	const field = "retry.delays"
	n := len(r.DelaysMs)
	if n > MaxRetryDelays {
		return &FieldError{Field: field, Detail: fmt.Sprintf("has %d delays", n),
			Limit: fmt.Sprintf("1 to %d", MaxRetryDelays)}
	}
	if n > 0 && (r.MinBackoffMs > 0 || r.MaxBackoffMs > 0) {
		return &FieldError{Field: field, Detail: "and a backoff are both given: at most one of them"}
	}
	for i, ms := range r.DelaysMs {
		if ms <= 0 || ms > MaxBackoff.Milliseconds() {
			return &FieldError{Field: fmt.Sprintf("%s[%d]", field, i), Detail: "is out of range",
				Limit: "more than 0s, at most 7d"}
		}
	}
	return nil
}

// AttemptsOf returns the number of attempts that a retry policy allows, or 0 if the policy does not set it.
func AttemptsOf(r *fsmpb.Retry) uint32 {
	if n := r.GetMaxAttempts(); n > 0 {
		return n
	}
	if n := len(r.GetDelaysMs()); n > 0 {
		return uint32(n) + 1
	}
	return 0
}

func checkLabels(labels []*fsmpb.Label) *FieldError {
	if n := len(labels); n > MaxLabels {
		return &FieldError{Field: "labels", Detail: fmt.Sprintf("has %d labels", n), Limit: fmt.Sprint(MaxLabels)}
	}
	for _, l := range labels {
		switch {
		case l.Name == "":
			return &FieldError{Field: "labels", Detail: "has an empty name"}
		case len(l.Name) > MaxLabelNameBytes:
			return tooLarge("labels."+l.Name, len(l.Name), MaxLabelNameBytes)
		case len(l.Value) > MaxLabelValueBytes:
			return tooLarge("labels."+l.Name, len(l.Value), MaxLabelValueBytes)
		}
	}
	return nil
}

// Destination returns the receiver that a target's URL leads to: scheme://host:port in lower case, always with the
// port. For a broker with several addresses it has all of them, separated by commas. A destination is the unit of
// isolation between receivers.
func Destination(rawURL string) (string, error) {
	destination, _, err := DestinationAndPath(rawURL)
	return destination, err
}

// DestinationAndPath also returns the path of a webhook's URL, without the query, and "" for a broker's URL. A path
// that fails is isolated from the other paths of its destination.
func DestinationAndPath(rawURL string) (destination, path string, err error) {
	t, err := targeturl.Parse(rawURL)
	if err != nil {
		return "", "", err
	}
	return t.Destination(), t.Path, nil
}

// ContentType returns the content type of a task's payload.
func ContentType(s *fsmpb.Spec) string {
	switch {
	case s.GetContentType() != "":
		return s.ContentType
	case s.GetPayloadIsBytes():
		return DefaultBytesType
	}
	return DefaultContentType
}

// Elements returns the elements of the JSON array that is a task's payload, without the brackets. No payload counts as
// an empty array. ok is false if the payload is no array.
func Elements(s *fsmpb.Spec) (within []byte, ok bool) {
	text := bytes.TrimSpace(s.GetPayload())
	switch {
	case s.GetPayloadIsBytes():
		return nil, false
	case len(text) == 0:
		return nil, true
	case len(text) < 2 || text[0] != '[':
		return nil, false
	}
	return bytes.TrimSpace(text[1 : len(text)-1]), true
}

func tooLarge(field string, n, limit int) *FieldError {
	return &FieldError{Field: field, Detail: fmt.Sprintf("is %d bytes", n), Limit: fmt.Sprintf("%d bytes", limit)}
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// notToken reports whether r is no token character of RFC 9110, section 5.6.2.
func notToken(r rune) bool {
	return !isAlphanumeric(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
