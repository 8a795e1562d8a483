package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
)

// specFields has a row for each member of a task that is neither its id nor a time: how a request's value is read into
// a spec, as a whole or as a part of a merge patch, and how an answer shows it. Package contract says which calls take
// the member, and package task has its limits. Follow-ups have specs of their own, and so no row.
var specFields = [...]struct {
	read   func(*specReader) error
	append func([]byte, *fsmpb.Spec) []byte // unless the member is the default; nil: the answer begins with the member
	merges bool                             // an object in a merge patch changes only the members that it names
}{
	contract.Queue:         {read: (*specReader).queue},
	contract.Payload:       {read: (*specReader).payload},
	contract.PayloadBase64: {read: (*specReader).payloadBase64},
	contract.ContentType:   {read: (*specReader).contentType},
	contract.Target:        {read: (*specReader).target, append: appendTarget, merges: true},
	contract.Retry:         {read: (*specReader).retry, append: appendRetry, merges: true},
	contract.ExpiresAfter:  {read: (*specReader).expiresAfter, append: appendExpiresAfter},
	contract.Labels:        {read: (*specReader).labels, append: appendLabels, merges: true},
	contract.Window:        {read: (*specReader).window, append: appendWindow},
	contract.Group:         {read: (*specReader).group, append: appendGroup},
	contract.Priority:      {read: (*specReader).priority, append: appendPriority},
}

// specReader reads the members of a spec.
type specReader struct {
	*parser
	r     *contract.Reader
	spec  *fsmpb.Spec
	patch *fsmpb.Patch // the members are those of a merge patch, whose Set is spec; nil: they are those of a whole spec
	place int          // of the follow-up that the spec is of; 0: of none
}

// member reads the value of any member of a spec.
func (s *specReader) member(f contract.Field) error {
	if f == contract.OnDelivered || f == contract.OnDead {
		return s.followUpMember(f)
	}
	field, path := &specFields[f], f.String()
	if f == contract.PayloadBase64 {
		path = "payload"
	}
	if s.patch != nil && (field.merges && s.cleared(path) || !field.merges && s.replaced(path)) {
		return nil
	}
	return field.read(s)
}

// cleared passes a null in a merge patch, and notes that the member goes back to its default.
func (s *specReader) cleared(path string) bool {
	return s.patch != nil && s.r.Peek() == 'n' && s.replaced(path)
}

// replaced notes in a merge patch that the value of a member goes. It passes a null, and reports whether there was one.
func (s *specReader) replaced(path string) bool {
	if s.patch == nil {
		return false
	}
	s.patch.Clear = append(s.patch.Clear, path)
	return s.r.Null()
}

// appendSettings appends the members of a task with which no answer begins, without its queue's.
func appendSettings(b []byte, spec *fsmpb.Spec) []byte {
	for i := range specFields {
		if write := specFields[i].append; write != nil {
			b = write(b, spec)
		}
	}
	b = appendFollowUp(b, contract.OnDelivered, spec.GetOnDelivered())
	return appendFollowUp(b, contract.OnDead, spec.GetOnDead())
}

// checkSpec checks the properties of a task, and leaves out a content type that is the default.
func (p *parser) checkSpec(spec *fsmpb.Spec) error {
	if spec.ContentType == task.DefaultContentType && !spec.PayloadIsBytes {
		spec.ContentType = ""
	}
	if err := task.CheckSpec(spec); err != nil {
		return err
	}
	if spec.Target != nil {
		if err := p.receivers.CheckURL(spec.Target.Url); err != nil {
			return err
		}
	}
	return nil
}

func onePayload(seen contract.Set) error {
	if seen.Has(contract.Payload) && seen.Has(contract.PayloadBase64) {
		return &task.FieldError{Field: "payload_base64", Detail: "and payload are both given: at most one of them"}
	}
	return nil
}

// checkPatch checks the set values against the limits, and puts the cleared members in order. The merged task is
// checked again where it is merged.
func (p *parser) checkPatch(patch *fsmpb.Patch, seen contract.Set) error {
	slices.Sort(patch.Clear)
	if seen.Has(contract.FireAt) && seen.Has(contract.Delay) {
		return &task.FieldError{Field: "delay", Detail: "and fire_at are both given: at most one of them"}
	}
	if err := onePayload(seen); err != nil {
		return err
	}
	set := patch.Set
	given := set.GetTarget().GetUrl()
	if set.GetTarget() != nil && given == "" {
		set = proto.CloneOf(set)
		set.Target.Url = "https://unchanged" // the task's own URL is not known here
	}
	if err := task.CheckSpec(set); err != nil {
		return err
	}
	if given == "" {
		return nil
	}
	return checked(p.receivers.CheckURL(given))
}

// queue reads a queue's name. The default queue's name is "".
func (s *specReader) queue() error {
	name, err := s.r.Text("queue")
	if err != nil {
		return err
	}
	if name != task.DefaultQueue {
		s.spec.Queue = name
	}
	return checked(task.CheckName("queue", name))
}

// payload reads any JSON value and keeps it byte for byte.
func (s *specReader) payload() (err error) {
	if s.spec.Payload, err = s.r.Value(); err != nil {
		return err
	}
	return checkPayload("payload", len(s.spec.Payload))
}

func (s *specReader) payloadBase64() error {
	const name = "payload_base64"
	text, err := s.r.TextBytes(name, "a string of base64")
	if err != nil {
		return err
	}
	if err := checkPayload(name, base64.StdEncoding.DecodedLen(len(text))-2); err != nil { // 2: the most padding
		return err
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") { // Decode skips line ends
		return &task.FieldError{Field: name, Detail: "is not standard base64 with padding (RFC 4648, section 4)"}
	}
	s.spec.Payload, s.spec.PayloadIsBytes = out[:n], true
	return checkPayload(name, n)
}

func checkPayload(field string, n int) error {
	if n <= task.MaxPayloadBytes {
		return nil
	}
	return &problem{kind: tooLarge, field: field, detail: fmt.Sprintf("is %d bytes", n),
		limit: fmt.Sprintf("%d bytes", task.MaxPayloadBytes)}
}

func appendPayload(b, payload []byte, isBytes bool) []byte {
	switch {
	case isBytes:
		return contract.AppendBase64(b, contract.PayloadBase64, payload)
	case len(payload) > 0:
		return append(contract.AppendName(b, contract.Payload), payload...)
	}
	return b
}

// contentType reads a content type, which must be a media type that a header can carry.
func (s *specReader) contentType() error {
	const field = "content_type"
	text, err := s.r.Text(field)
	if err != nil {
		return err
	}
	s.spec.ContentType = text
	media, _, err := mime.ParseMediaType(text)
	switch {
	case text == "":
		return &task.FieldError{Field: field, Detail: "is empty"}
	case strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) >= 0:
		return &task.FieldError{Field: field, Detail: "has a character that no header can carry"}
	case len(text) > task.MaxContentType: // CheckSpec words the limit
	case err != nil || !strings.Contains(media, "/"):
		return &task.FieldError{Field: field, Detail: "is no media type", Limit: "like text/plain; charset=utf-8"}
	}
	return nil
}

func (s *specReader) target() error {
	t, seen := new(fsmpb.Target), contract.Set(0)
	s.spec.Target = t
	err := s.r.Object("target", &contract.TargetObject, &seen, func(f contract.Field) (err error) {
		switch f {
		case contract.URL:
			t.Url, err = s.targetURL()
		case contract.Method:
			if !s.replaced("target.method") {
				t.Method, err = s.method()
			}
		case contract.Auth:
			if !s.replaced("target.auth") {
				t.Auth, err = readAuth(s.r)
			}
		case contract.Headers:
			if !s.cleared("target.headers") {
				t.Headers, err = pairs(s, "target.headers", lowerASCII, func(name, value string) *fsmpb.Header {
					return &fsmpb.Header{Name: name, Value: value}
				})
			}
		case contract.Timeout:
			if !s.replaced("target.timeout") {
				t.TimeoutMs, err = positive(s.r, "target.timeout", task.MaxTimeout, "10m")
			}
		}
		return err
	})
	if err == nil && t.Url == "" && s.patch == nil {
		err = &task.FieldError{Field: "target.url", Detail: "is absent or empty"}
	}
	return err
}

func (s *specReader) targetURL() (string, error) {
	const field = "target.url"
	text, err := s.r.Text(field)
	switch {
	case err != nil:
	case text == "" && s.patch != nil:
		err = &task.FieldError{Field: field, Detail: "is empty"}
	default:
		if wrong := targeturl.CheckQuery(text); wrong != nil {
			err = &task.FieldError{Field: field, Detail: wrong.Error()}
		}
	}
	return text, err
}

// method reads the method of a webhook's requests. The default is kept as "".
func (s *specReader) method() (string, error) {
	const field = "target.method"
	text, err := s.r.Text(field)
	switch {
	case err != nil || text == http.MethodPost:
		return "", err
	case text == "":
		return "", &task.FieldError{Field: field, Detail: "is empty", Limit: task.MethodNames}
	}
	return text, nil
}

// readAuth reads the proof of a target. The default algorithm is kept as "".
func readAuth(r *contract.Reader) (*fsmpb.Auth, error) {
	a := new(fsmpb.Auth)
	return a, contract.Members{
		"jwt": func(r *contract.Reader, full string, _ bool) error {
			a.Jwt = new(fsmpb.Jwt)
			return contract.Members{
				"audience":  contract.Text(&a.Jwt.Audience),
				"claims":    contract.Into(&a.Jwt.Claims, readClaims),
				"algorithm": contract.Into(&a.Jwt.Algorithm, readAlgorithm),
			}.Object(r, full, false)
		},
		"client_certificate": contract.Into(&a.ClientCertificate, func(r *contract.Reader, full string) (string, error) {
			name, err := r.Text(full)
			return name, notEmpty(full, name, err)
		}),
	}.Object(r, "target.auth", false)
}

// readClaims reads a JSON object, without its white space.
func readClaims(r *contract.Reader, full string) ([]byte, error) {
	if r.Peek() != '{' {
		return nil, r.WrongType(full, "an object")
	}
	text, err := r.Value()
	if err != nil {
		return nil, err
	}
	if n := len(text); n > 4*task.MaxClaimsBytes { // white space is for people, and no room for anything
		return nil, &task.FieldError{Field: full, Detail: fmt.Sprintf("is %d bytes", n),
			Limit: fmt.Sprintf("%d bytes", task.MaxClaimsBytes)}
	}
	var flat bytes.Buffer
	err = json.Compact(&flat, text)
	return flat.Bytes(), err
}

func readAlgorithm(r *contract.Reader, full string) (string, error) {
	name, err := r.Text(full)
	if name == task.EdDSA {
		name = ""
		return name, err
	}
	return name, notEmpty(full, name, err)
}

// notEmpty returns the error of a text that was read, or that of an empty one.
func notEmpty(field, text string, err error) error {
	if err == nil && text == "" {
		err = &task.FieldError{Field: field, Detail: "is empty"}
	}
	return err
}

// lowerASCII returns a header's name in lower case. It leaves other letters as they are, for the check of names to
// refuse: strings.ToLower makes an ASCII letter of some, such as the Kelvin sign.
func lowerASCII(name string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, name)
}

// pairs reads an object of strings, sorted by name. It refuses names that are equal after fold. A null in a merge patch
// removes the entry with its name.
func pairs[E interface{ GetName() string }](
	s *specReader, field string, fold func(string) string, entry func(name, value string) E,
) ([]E, error) {
	var list []E
	var names []string
	err := s.r.Each(field, func(raw []byte) error {
		name := fold(string(raw))
		names = append(names, name)
		if s.patch != nil && s.cleared(field+"."+name) {
			return nil
		}
		value, err := s.r.Text(field + "." + contract.Clip(name))
		list = append(list, entry(name, value))
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return nil, contract.Twice(field + "." + names[i])
		}
	}
	slices.SortFunc(list, func(a, b E) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list, nil
}

func appendTarget(b []byte, spec *fsmpb.Spec) []byte {
	t := spec.GetTarget()
	if t == nil {
		return b
	}
	b = contract.AppendName(b, contract.Target)
	begin := len(b)
	b = contract.AppendText(b, contract.URL, t.Url)
	b = contract.AppendTextIf(b, contract.Method, t.Method)
	b = appendAuth(b, t.Auth)
	if len(t.Headers) > 0 {
		b = append(contract.AppendName(b, contract.Headers), '{')
		for i, h := range t.Headers {
			b = contract.AppendPair(b, i, h.Name, shownValue(h))
		}
		b = append(b, '}')
	}
	return contract.Close(appendSpan(b, contract.Timeout, t.TimeoutMs), begin)
}

// appendAuth appends the proof of a target, which has no secret in it.
func appendAuth(b []byte, a *fsmpb.Auth) []byte {
	if a == nil {
		return b
	}
	b = contract.AppendName(b, contract.Auth)
	begin := len(b)
	if j := a.Jwt; j != nil {
		b = contract.AppendName(b, contract.JWT)
		inner := len(b)
		b = contract.AppendText(b, contract.Audience, j.Audience)
		if len(j.Claims) > 0 {
			b = append(contract.AppendName(b, contract.Claims), j.Claims...)
		}
		b = contract.Close(contract.AppendTextIf(b, contract.Algorithm, j.Algorithm), inner)
	}
	return contract.Close(contract.AppendTextIf(b, contract.ClientCertificate, a.ClientCertificate), begin)
}

// shownValue returns a header's value for answers, which masks credentials. All answers with a target, of a task or of
// a queue, use appendSettings and so this function.
func shownValue(h *fsmpb.Header) string {
	if task.IsCredential(h.Name) {
		return task.Masked
	}
	return h.Value
}

// retry reads the retry policy. An empty policy is none, and changes nothing in a merge patch.
func (s *specReader) retry() error {
	policy, seen := new(fsmpb.Retry), contract.Set(0)
	err := s.r.Object("retry", &contract.RetryObject, &seen, func(f contract.Field) (err error) {
		path := "retry." + f.String()
		if s.replaced(path) {
			return nil
		}
		switch f {
		case contract.MaxAttempts:
			var n int64
			n, err = s.r.Whole(path, 1, task.MaxAttempts)
			policy.MaxAttempts = uint32(n)
		case contract.MinBackoff:
			policy.MinBackoffMs, err = backoff(s.r, path)
		case contract.MaxBackoff:
			policy.MaxBackoffMs, err = backoff(s.r, path)
		case contract.Delays:
			policy.DelaysMs, err = delays(s.r, path)
		}
		return err
	})
	if seen != 0 || s.patch != nil {
		s.spec.Retry = policy
	}
	return err
}

// delays reads the pauses between attempts, at least one, in milliseconds.
func delays(r *contract.Reader, field string) ([]int64, error) {
	limit := fmt.Sprintf("1 to %d", task.MaxRetryDelays)
	tooMany := &task.FieldError{Field: field, Detail: "has too many", Limit: limit}
	list, err := contract.List(r, field, task.MaxRetryDelays, tooMany, backoff)
	if err == nil && len(list) == 0 {
		err = &task.FieldError{Field: field, Detail: "is empty", Limit: limit}
	}
	return list, err
}

func backoff(r *contract.Reader, name string) (int64, error) {
	return positive(r, name, task.MaxBackoff, "7d")
}

// appendRetry appends a retry policy, unless it is empty.
func appendRetry(b []byte, spec *fsmpb.Spec) []byte {
	r := spec.GetRetry()
	if r == nil || r.MaxAttempts == 0 && r.MinBackoffMs == 0 && r.MaxBackoffMs == 0 && len(r.DelaysMs) == 0 {
		return b
	}
	b = contract.AppendName(b, contract.Retry)
	begin := len(b)
	b = appendCount(b, contract.MaxAttempts, r.MaxAttempts)
	b = appendSpan(b, contract.MinBackoff, r.MinBackoffMs)
	b = appendSpan(b, contract.MaxBackoff, r.MaxBackoffMs)
	if len(r.DelaysMs) > 0 {
		b = appendList(contract.AppendName(b, contract.Delays), r.DelaysMs, func(b []byte, ms int64) []byte {
			return contract.AppendDuration(b, milliseconds(ms))
		})
	}
	return contract.Close(b, begin)
}

func (s *specReader) expiresAfter() (err error) {
	s.spec.ExpiresAfterMs, err = positive(s.r, "expires_after", task.MaxDelay, "100 years")
	return err
}

func appendExpiresAfter(b []byte, spec *fsmpb.Spec) []byte {
	return appendSpan(b, contract.ExpiresAfter, spec.GetExpiresAfterMs())
}

func (s *specReader) labels() (err error) {
	asIs := func(name string) string { return name }
	s.spec.Labels, err = pairs(s, "labels", asIs, func(name, value string) *fsmpb.Label {
		return &fsmpb.Label{Name: name, Value: value}
	})
	return err
}

func appendLabels(b []byte, spec *fsmpb.Spec) []byte {
	if len(spec.GetLabels()) == 0 {
		return b
	}
	b = append(contract.AppendName(b, contract.Labels), '{')
	for i, l := range spec.Labels {
		b = contract.AppendPair(b, i, l.Name, l.Value)
	}
	return append(b, '}')
}

func (s *specReader) group() (err error) {
	if s.spec.Group, err = s.r.Text("group"); err != nil {
		return err
	}
	return checked(task.CheckName("group", s.spec.Group))
}

func appendGroup(b []byte, spec *fsmpb.Spec) []byte {
	return contract.AppendTextIf(b, contract.Group, spec.GetGroup())
}

// priority reads a priority. The default one is 0, so that a task for which it was sent is like one without.
func (s *specReader) priority() error {
	n, err := s.r.Whole("priority", task.FirstPriority, task.LastPriority)
	if n != task.DefaultPriority {
		s.spec.Priority = uint32(n)
	}
	return err
}

func appendPriority(b []byte, spec *fsmpb.Spec) []byte {
	if spec.GetPriority() == task.DefaultPriority {
		return b
	}
	return appendCount(b, contract.Priority, spec.GetPriority())
}

// windowView is a window as answers show it.
type windowView struct {
	TimeZone string   `json:"time_zone,omitempty"`
	Daily    []string `json:"daily"`
	Days     string   `json:"days,omitempty"`
	Calendar string   `json:"calendar,omitempty"`
}

// window reads and checks the window of a task or a queue.
func (s *specReader) window() (err error) {
	if s.spec.Window, err = repeating.ReadWindow(s.r, contract.Window.String()); err != nil {
		return err
	}
	calendar := s.calendarOf(s.spec.Window.Calendar)
	return repeating.CheckWindow(s.spec.Window, calendar, s.now.at)
}

func appendWindow(b []byte, spec *fsmpb.Spec) []byte {
	w := spec.GetWindow()
	if w == nil {
		return b
	}
	text, err := json.Marshal(windowView{w.TimeZone, w.Daily, w.Days, w.Calendar})
	if err != nil {
		panic(fmt.Sprintf("httpapi: a window cannot be written: %v", err))
	}
	return append(contract.AppendName(b, contract.Window), text...)
}
