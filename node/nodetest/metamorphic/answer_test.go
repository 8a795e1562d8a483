package metamorphic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// open are the members of an answer that may differ between clusters: see the package's documentation.
var open = []string{
	"revision", "shard", "node", "fence", "receipt", "next_cursor", "lateness", "complete_since", "oldest_overdue",
}

// toldRevision is a revision in the detail of a refusal.
var toldRevision = regexp.MustCompile(`revision \d+`)

// reader brings the answers of one cluster into the form in which clusters must agree. Its methods are safe for
// concurrent use.
type reader struct {
	mu        sync.Mutex
	revisions map[string]string   // last seen of a task, by its path
	receipts  map[string]string   // of its last lease, by the task's path
	webhooks  map[string][]string // webhook-ids of a task in the order in which they appeared, by its path
}

func newReader() *reader {
	return &reader{revisions: map[string]string{}, receipts: map[string]string{}, webhooks: map[string][]string{}}
}

// known returns what one of the maps has for a task.
func (r *reader) known(in map[string]string, ns, id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return in[ns+"/"+id]
}

// text returns the compared text of a JSON value or of lines of JSON.
func (r *reader) text(ns string, body []byte) string {
	var values []string
	for in := json.NewDecoder(bytes.NewReader(body)); ; {
		in.UseNumber()
		var v any
		if err := in.Decode(&v); err != nil {
			if rest := len(bytes.TrimSpace(body[in.InputOffset():])); rest > 0 {
				return fmt.Sprintf("no JSON: %s", body)
			}
			return strings.Join(values, "\n\t")
		}
		values = append(values, encode(r.compared(ns, v)))
	}
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(text)
}

// compared returns the part of a value in which clusters must agree.
func (r *reader) compared(ns string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return r.object(ns, v)
	case []any:
		for i := range v {
			v[i] = r.compared(ns, v[i])
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return second(at)
		}
		return toldRevision.ReplaceAllString(v, "revision")
	}
	return v
}

func (r *reader) object(ns string, o map[string]any) any {
	id, ok := o["id"].(string)
	if task, isEvent := o["task"].(string); isEvent {
		id, ok = task, true
	}
	if ok {
		r.note(ns+"/"+id, o)
	}
	for name, v := range o {
		switch {
		case slices.Contains(open, name):
			delete(o, name)
		case name == "webhook_id":
			o[name] = r.occurrence(ns+"/"+id, v.(string))
		default:
			o[name] = r.compared(ns, v)
		}
	}
	return o
}

// note keeps the revision and the receipt of a task for later calls.
func (r *reader) note(path string, o map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision, ok := o["revision"].(json.Number); ok {
		r.revisions[path] = revision.String()
	}
	if receipt, ok := o["receipt"].(string); ok {
		r.receipts[path] = receipt
	}
}

// occurrence returns the number of a webhook-id among those of its task.
func (r *reader) occurrence(path, webhook string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := slices.Index(r.webhooks[path], webhook)
	if n < 0 {
		n = len(r.webhooks[path])
		r.webhooks[path] = append(r.webhooks[path], webhook)
	}
	return fmt.Sprintf("%s occurrence %d", path, n+1)
}

// second returns the second of the history in which an instant lies.
func second(at time.Time) string {
	return fmt.Sprintf("%ds", int(at.Sub(start)/time.Second))
}

// sortDue sorts the tasks of a list in the order of due times by their ids where the seconds are the same.
func sortDue(tasks []any) {
	due := func(v any) string {
		o := v.(map[string]any)
		if next, ok := o["next_attempt_at"].(string); ok {
			return next
		}
		return fmt.Sprint(o["fire_at"])
	}
	for from := 0; from < len(tasks); {
		to := from + 1
		for to < len(tasks) && due(tasks[to]) == due(tasks[from]) {
			to++
		}
		slices.SortFunc(tasks[from:to], byID)
		from = to
	}
}

func byID(a, b any) int {
	return cmp.Compare(a.(map[string]any)["id"].(string), b.(map[string]any)["id"].(string))
}
