package delivery

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

const (
	batchType = "application/cloudevents-batch+json"

	// maxNesting is the deepest nesting of a payload that is embedded in a batch's JSON. Common parsers give up at 64
	// levels and would then refuse the whole batch for one event.
	maxNesting = 60
)

// events returns the body of a batch (CloudEvents JSON format 1.0.2, section 4): an array with one object for each
// attempt. The code appends the JSON itself, since encoding/json would change payloads: it drops their spaces.
func events(batch []task.Attempt) []byte {
	size := 2
	for _, a := range batch {
		size += 512 + base64.StdEncoding.EncodedLen(len(a.Task.GetSpec().GetPayload()))
	}
	b := append(make([]byte, 0, size), '[')
	for i, a := range batch {
		if i > 0 {
			b = append(b, ',', '\n')
		}
		b = appendEvent(b, a)
	}
	return append(b, ']')
}

// appendEvent appends a task as a JSON object with the values of headers. The fence is a string, since CloudEvents'
// integers have 32 bits and JSON numbers in many languages 53.
func appendEvent(b []byte, a task.Attempt) []byte {
	t, s := a.Task, a.Task.GetSpec()
	b = append(b, `{"specversion":"`+specVersion+`","id":`...)
	b = contract.AppendString(b, t.WebhookId)
	b = append(b, `,"type":"`+eventType+`","source":`...)
	b = contract.AppendString(b, task.Source(t))
	b = append(b, `,"subject":`...)
	b = contract.AppendString(b, t.Id)
	b = contract.AppendInstant(append(b, `,"time":`...), t.FireAtMs)
	b = append(b, `,"belfryattempt":`...)
	b = strconv.AppendUint(b, uint64(t.Attempts), 10)
	b = append(b, `,"belfryfence":"`...)
	b = strconv.AppendUint(b, t.Fence, 10)
	b = append(b, '"')
	if schedule, number, ok := task.SplitOccurrence(t.Id); ok {
		b = contract.AppendString(append(b, `,"belfryschedule":`...), schedule)
		b = strconv.AppendUint(append(b, `,"belfryoccurrence":"`...), number, 10)
		b = contract.AppendInstant(append(b, `","belfryscheduled":`...), task.ScheduledMs(t))
	}
	if trace := a.Trace(); isTraceparent(trace) {
		b = append(b, `,"traceparent":"`+trace+`"`...)
	}
	return append(appendData(b, s), '}')
}

// appendData appends the payload and its type. It appends neither for an empty payload, as in a single request.
func appendData(b []byte, s *fsmpb.Spec) []byte {
	if len(s.GetPayload()) == 0 {
		return b
	}
	b = append(b, `,"datacontenttype":`...)
	b = contract.AppendString(b, task.ContentType(s))
	if isJSONType(task.ContentType(s)) && isEmbeddable(s.Payload) {
		b = append(b, `,"data":`...)
		return append(b, s.Payload...)
	}
	b = append(b, `,"data_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, s.Payload)
	return append(b, '"')
}

// isJSONType reports whether CloudEvents treat a media type as JSON: the subtype json, or a subtype with the suffix
// +json.
func isJSONType(contentType string) bool {
	if contentType == task.DefaultContentType {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	_, subtype, _ := strings.Cut(media, "/")
	return subtype == "json" || strings.HasSuffix(subtype, "+json")
}

// isEmbeddable reports whether a payload can be a value in the batch's JSON and leave the batch readable for common
// parsers.
func isEmbeddable(payload []byte) bool {
	return utf8.Valid(payload) && json.Valid(payload) && nesting(payload) <= maxNesting
}

// nesting returns how deep arrays and objects are nested in valid JSON.
func nesting(valid []byte) int {
	depth, deepest := 0, 0
	quoted := false
	for i := 0; i < len(valid); i++ {
		switch c := valid[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}
