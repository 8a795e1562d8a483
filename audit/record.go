package audit

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// The kinds of records.
const (
	KindChange  = "change"  // a call that changes something for operators, whatever its outcome
	KindRefusal = "refusal" // a call that was refused because of its caller
)

// Record is one line of the log. Log sets ID, Time, Node, Kind and, of a counted refusal, Count and First.
type Record struct {
	ID      string            `json:"id"`
	Time    Instant           `json:"time"`
	Node    string            `json:"node"` // node id
	Kind    string            `json:"kind"`
	Caller  Caller            `json:"caller"`
	From    string            `json:"from,omitempty"` // IP address of the caller
	Method  string            `json:"method"`
	Route   string            `json:"route"` // pattern, such as /v1/queues/{queue}
	Object  map[string]string `json:"object,omitempty"`
	Fields  []string          `json:"fields,omitempty"`
	Status  int               `json:"status"`
	Problem string            `json:"problem,omitempty"` // last part of the problem's type
	Outcome string            `json:"outcome,omitempty"` // of a change
	Begun   *Instant          `json:"begun,omitempty"`   // start of a call that has two records
	Bytes   int64             `json:"bytes,omitempty"`   // of the answer's body, in the second one
	Request string            `json:"request,omitempty"` // the caller's id of the call
	Count   int               `json:"count,omitempty"`   // refusals that the record stands for, of a record of a count
	First   *Instant          `json:"first,omitempty"`   // time of the first of them
}

// The outcomes of changes.
const (
	OutcomeBegun   = "begun"   // the call is under way: a second record follows
	OutcomeDone    = "done"    // it was carried out
	OutcomeFailed  = "failed"  // it was not, or not whole
	OutcomeUnknown = "unknown" // it may have been carried out
)

// Caller is the identity behind a call. All fields are empty for a call without accepted credentials.
type Caller struct {
	Kind string `json:"kind,omitempty"` // as in package access
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Instant is a time that is written in UTC with milliseconds.
type Instant struct{ time.Time }

const layout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the instant as a string.
func (t Instant) MarshalJSON() ([]byte, error) { return t.UTC().AppendFormat(nil, `"`+layout+`"`), nil }

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Instant) UnmarshalJSON(data []byte) (err error) {
	t.Time, err = time.Parse(`"`+layout+`"`, string(data))
	return err
}

// Bounds of a record, which keep a line below maxLine.
const (
	maxText  = 256
	maxNames = 64
	maxLine  = 64 << 10
)

// line returns the record as a line, with its texts cleaned.
func (r Record) line() ([]byte, error) {
	for _, text := range []*string{
		&r.Caller.ID, &r.Caller.Name, &r.From, &r.Method, &r.Route, &r.Problem, &r.Request,
	} {
		*text = Clean(*text)
	}
	r.Object = cleanObject(r.Object)
	r.Fields = cleanFields(r.Fields)
	data, err := json.Marshal(r)
	if len(data) >= maxLine { // escaped characters are up to six times as long
		r.Object, r.Fields = nil, nil
		data, err = json.Marshal(r)
	}
	return append(data, '\n'), err
}

func cleanObject(object map[string]string) map[string]string {
	if len(object) == 0 {
		return nil
	}
	cleaned := make(map[string]string, len(object))
	for name, value := range object {
		if len(cleaned) < maxNames {
			cleaned[Clean(name)] = Clean(value)
		}
	}
	return cleaned
}

func cleanFields(fields []string) []string {
	var cleaned []string
	for _, field := range fields[:min(len(fields), maxNames)] {
		cleaned = append(cleaned, Clean(field))
	}
	return cleaned
}

const redacted = "[redacted]"

// secretMarks are parts of texts that have secrets in them: API keys, signing secrets, one-time tokens, Authorization
// headers, the pair of a name and a password, and keys in PEM.
var secretMarks = []string{
	"bfy_", "whsec_", "belfry-join-", "bearer ", "basic ", "digest ", "password=", "passwd=", "secret=", "token=",
	"api_key=", "apikey=", "authorization:", "cookie:", "-----begin ",
}

// secretForms are the forms of JSON Web Tokens and parts of them, and of addresses with a password.
var secretForms = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8}|://[^/?#\s]*@`)

// Clean cuts a text to maxText bytes, and replaces one that may contain a secret.
func Clean(text string) string {
	lower := strings.ToLower(text)
	for _, mark := range secretMarks {
		if strings.Contains(lower, mark) {
			return redacted
		}
	}
	if secretForms.MatchString(text) {
		return redacted
	}
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
