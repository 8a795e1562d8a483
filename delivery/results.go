package delivery

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

// The two constants bound the bytes read of a list of results: resultsBase, and resultsPerTask for each event.
const (
	resultsBase    = 64 << 10
	resultsPerTask = 512 // room for an id, a status and the kept 200 bytes of an error
)

// eventResult is the receiver's result for one event of a batch.
type eventResult struct {
	ID         string  `json:"id"`
	Status     int     `json:"status"`
	RetryAfter float64 `json:"retry_after"` // seconds
	Error      string  `json:"error"`
}

var errNoList = errors.New("results is no list")

// answeredBatch judges a 2xx reply to a batch: one verdict for all events, or one for each. A body that begins with a
// brace may hold results, whatever its content type, since servers without a configured type send a wrong one. Any
// other body is ignored.
func (x *exchange) answeredBatch(resp *http.Response, batch []task.Attempt) (verdict, []verdict) {
	limit := int64(resultsBase + resultsPerTask*len(batch))
	body := bufio.NewReader(io.LimitReader(resp.Body, limit))
	object, err := beginsObject(body)
	switch {
	case err != nil:
		return x.unread("the answer's body is cut short, so its results of the events are not known"), nil
	case !object:
		x.hurry()
		drain(resp, 0)
		return delivered(resp.StatusCode), nil
	}
	list := newResultList(batch)
	err = list.read(json.NewDecoder(body))
	if err != nil {
		rest := x.unread(fmt.Sprintf("the answer's results are malformed, cut short or over %d KiB", limit>>10))
		return rest, list.verdicts(rest)
	}
	x.hurry()
	drain(resp, 0)
	if !list.present {
		return delivered(resp.StatusCode), nil
	}
	return verdict{}, list.verdicts(failed("the answer has results, and none of this event"))
}

// unread returns the verdict of a reply that was not read whole.
func (x *exchange) unread(text string) verdict {
	if v, ended := x.cutOff(); ended {
		return v
	}
	return failed(text)
}

// beginsObject reports whether the first byte of a body after white space is a brace. It leaves the brace unread.
func beginsObject(body *bufio.Reader) (bool, error) {
	for {
		switch c, err := body.ReadByte(); {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		default:
			return c == '{', body.UnreadByte()
		}
	}
}

// resultList collects the verdicts of a batch's events while the reply is read, so that a hostile reply costs the
// memory of one result and not of all.
type resultList struct {
	present bool
	index   map[string]int // by webhook-id
	given   []*verdict     // in the batch's order; nil: no result yet
}

func newResultList(batch []task.Attempt) *resultList {
	l := &resultList{index: make(map[string]int, len(batch)), given: make([]*verdict, len(batch))}
	for i, a := range batch {
		l.index[a.Task.WebhookId] = i
	}
	return l
}

// verdicts returns the verdict of each event, and other for an event without a result.
func (l *resultList) verdicts(other verdict) []verdict {
	out := make([]verdict, len(l.given))
	for i, v := range l.given {
		if out[i] = other; v != nil {
			out[i] = *v
		}
	}
	return out
}

// read reads the object at the beginning of a body. The results before an error count.
func (l *resultList) read(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil { // the brace
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		if text, ok := name.(string); !ok || !strings.EqualFold(text, "results") { // encoding/json ignores case too
			var skipped json.RawMessage
			err = dec.Decode(&skipped)
		} else {
			err = l.readList(dec)
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func (l *resultList) readList(dec *json.Decoder) error {
	l.present = true
	begin, err := dec.Token()
	if err != nil || begin == nil { // some languages write an empty list as null
		return err
	}
	if begin != json.Delim('[') {
		return errNoList
	}
	for dec.More() {
		var r eventResult
		if err := dec.Decode(&r); err != nil {
			return err
		}
		l.take(r)
	}
	_, err = dec.Token()
	return err
}

// take notes one result. A failure overrides a success for the same event.
func (l *resultList) take(r eventResult) {
	i, known := l.index[r.ID]
	if !known || l.given[i] != nil && isSuccess(r.Status) {
		return
	}
	v := r.verdict()
	l.given[i] = &v
}

func (r eventResult) verdict() verdict {
	if isSuccess(r.Status) {
		return delivered(r.Status)
	}
	seconds := min(max(r.RetryAfter, 0), maxRetryAfter.Seconds())
	after := time.Duration(seconds * float64(time.Second))
	if r.Status == 0 {
		return refusal(r.Status, after, withExcerpt("the event's result has no status", []byte(r.Error)))
	}
	return refusal(r.Status, after, withExcerpt(statusText(r.Status), []byte(r.Error)))
}
