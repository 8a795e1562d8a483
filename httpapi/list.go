package httpapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/contract"
)

func (s *taskService) list(c echo.Context) error {
	return s.listRecords(c, listedTasks)
}

// listed describes a list of records: of tasks, or of schedules.
type listed struct {
	member, kind string // of the answer's list, and of the listing
	append       func(b []byte, t *fsmpb.Task, withPayload bool) []byte
}

var listedTasks = listed{`{"tasks":[`, listsTasks, func(b []byte, t *fsmpb.Task, withPayload bool) []byte {
	v := viewOf(t)
	if !withPayload {
		v.payload, v.payloadIsBytes = nil, false
	}
	return v.append(b)
}}

// listRecords answers a page of tasks or schedules.
func (s *core) listRecords(c echo.Context, l listed) error {
	cl := callOf(c)
	q, err := parseList(l.kind, cl.namespace, c.QueryParams(), s.arrived().at)
	if err == nil {
		err = cl.checkList(q.Queue, q.Prefix)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cl.life(), s.bounds.RequestTimeout)
	defer cancel()
	page, err := s.tasks.List(ctx, q)
	if refusal := cl.right.Refusal(); refusal != nil {
		return refusal
	}
	if err != nil {
		return s.readFailed(err)
	}
	s.writePage(c.Response(), page, q, l, s.work.Turn(cl.namespace))
	return nil
}

// writePage answers record by record, so that a page of large payloads is not in memory twice.
func (s *core) writePage(
	w http.ResponseWriter, page *fsmpb.ListPage, q *fsmpb.ListQuery, l listed, turn *admission.Turn,
) {
	defer turn.Pause()
	h := w.Header()
	h["Content-Type"] = []string{jsonType}
	h["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(http.StatusOK)
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, l.member...)
	for i, t := range page.Tasks {
		if i > 0 {
			b = append(b, ',')
		}
		payload := 0
		if q.IncludePayload {
			payload = len(t.Spec.GetPayload())
		}
		turn.Work(viewBytes + payload)
		b = l.append(b, t, q.IncludePayload)
		if len(b) > 32<<10 {
			turn.Pause()
			if _, err := w.Write(b); err != nil {
				return // the client is gone
			}
			b = b[:0]
		}
	}
	b = append(b, `],"next_cursor":`...)
	if page.More && page.Slot < task.Slots { // a page that ends with the last slot is the last page
		b = append(append(append(b, '"'), listingOf(l.kind, q).cursor(placeBehind(page))...), '"')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}\n"...)
	turn.Pause()
	_, _ = w.Write(b) // the last write: an error has no reader
	*buffer = b
}

// viewBytes is about the length of a task in an answer, without its payload.
const viewBytes = 256

// parseList reads the parameters of a listing of the given kind in a namespace. The middleware params has refused
// repeated parameters.
func parseList(kind, namespace string, query url.Values, now time.Time) (*fsmpb.ListQuery, error) {
	q := &fsmpb.ListQuery{Namespace: namespace, Limit: task.DefaultListLimit}
	if kind == listsSchedules {
		q.States = []fsmpb.State{fsmpb.State_STATE_REPEATING}
	}
	for _, p := range []struct {
		name string
		read func(q *fsmpb.ListQuery, value string) error
	}{
		{"queue", listQueue}, {"prefix", listPrefix}, {"limit", listLimit}, {"include", listInclude}, {"order", listOrder},
		{"due_after", func(q *fsmpb.ListQuery, v string) error { return listDue("due_after", &q.DueAfterMs, v, now) }},
		{"due_before", func(q *fsmpb.ListQuery, v string) error { return listDue("due_before", &q.DueBeforeMs, v, now) }},
	} {
		if !query.Has(p.name) {
			continue
		}
		if err := p.read(q, query.Get(p.name)); err != nil {
			return nil, err
		}
	}
	if err := listStates(q, query["state"]); err != nil {
		return nil, err
	}
	if err := listLabels(q, query["label"]); err != nil {
		return nil, err
	}
	return q, listCursor(kind, q, query) // the cursor depends on all other parameters
}

func listQueue(q *fsmpb.ListQuery, value string) error {
	q.Queue = value
	return checked(task.CheckName("queue", value))
}

func listPrefix(q *fsmpb.ListQuery, value string) error {
	q.Prefix = value
	if value == "" {
		return nil
	}
	// A prefix may end within the number of an occurrence, as in a@ or a@1.
	name, number, ofOccurrence := strings.Cut(value, "@")
	if ofOccurrence && number != "" {
		return checked(task.CheckTaskID("prefix", value))
	}
	return checked(task.CheckName("prefix", name))
}

// checked converts a FieldError to an error, and nil to nil.
func checked(err *task.FieldError) error {
	if err != nil {
		return err
	}
	return nil
}

func listLimit(q *fsmpb.ListQuery, value string) error {
	n, err := wholeParam("limit", value, 1, task.MaxListLimit)
	q.Limit = uint32(n)
	return err
}

func listInclude(q *fsmpb.ListQuery, value string) error {
	if value != "payload" {
		return fieldProblem("include", fmt.Sprintf("is %q and can only be payload", contract.Clip(value)), "")
	}
	q.IncludePayload = true
	return nil
}

// listOrders has the values of the parameter order.
var listOrders = map[string]fsmpb.ListOrder{
	"id": fsmpb.ListOrder_LIST_ORDER_ID, "due": fsmpb.ListOrder_LIST_ORDER_DUE,
}

func listOrder(q *fsmpb.ListQuery, value string) error {
	order, ok := listOrders[value]
	if !ok {
		return fieldProblem("order", fmt.Sprintf("is %q and can only be id or due", contract.Clip(value)), "")
	}
	q.Order = order
	return nil
}

// listDue reads a bound of due times.
func listDue(name string, bound *int64, value string, now time.Time) error {
	// An unescaped plus in a query is a space, and an instant has no spaces.
	ms, err := instantField(name, strings.ReplaceAll(value, " ", "+"), now)
	*bound = max(ms, 1) // 0 would select any time
	return err
}

func listCursor(kind string, q *fsmpb.ListQuery, query url.Values) error {
	if !query.Has("cursor") {
		return nil
	}
	at, ok := listingOf(kind, q).decode(query.Get("cursor"))
	if !ok {
		return fieldProblem("cursor", "is not one that a list of the same parameters answered", "")
	}
	q.AfterDueMs, q.Slot, q.AfterId = at.dueMs, at.slot, at.id
	return nil
}

func listStates(q *fsmpb.ListQuery, values []string) error {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			state := stateOf(name)
			if state == fsmpb.State_STATE_UNSPECIFIED {
				return fieldProblem("state", fmt.Sprintf("%q is not a state", contract.Clip(name)),
					"scheduled, ready, firing, retrying, delivered, dead, cancelled")
			}
			if slices.Contains(q.States, state) {
				return contract.Twice("state")
			}
			q.States = append(q.States, state)
		}
	}
	return nil
}

func stateOf(name string) fsmpb.State {
	for s := fsmpb.State_STATE_SCHEDULED; s <= fsmpb.State_STATE_CANCELLED; s++ {
		if stateName(s) == name {
			return s
		}
	}
	return fsmpb.State_STATE_UNSPECIFIED
}

func listLabels(q *fsmpb.ListQuery, values []string) error {
	if len(values) > task.MaxLabels {
		return fieldProblem("label", fmt.Sprintf("is given %d times", len(values)), fmt.Sprint(task.MaxLabels))
	}
	for _, value := range values {
		end := strings.IndexAny(value, ":=")
		if end <= 0 {
			return fieldProblem("label", fmt.Sprintf("is %q and must be name:value or name=value", contract.Clip(value)), "")
		}
		label := &fsmpb.Label{Name: value[:end], Value: value[end+1:]}
		if slices.ContainsFunc(q.Labels, func(l *fsmpb.Label) bool { return proto.Equal(l, label) }) {
			return contract.Twice("label")
		}
		q.Labels = append(q.Labels, label)
	}
	return nil
}

// listing identifies a listing by a hash of its kind and its filters. A cursor belongs to one listing: in another one
// it would skip entries that its caller has not seen. The hash is the same on every node, so any node can continue the
// listing.
type listing uint64

const (
	listsTasks     = "tasks"
	listsSchedules = "schedules"
	listsQueues    = "queues"
)

// listingOf hashes the filters of q. The page size and the inclusion of payloads may differ from page to page.
func listingOf(kind string, q *fsmpb.ListQuery) listing {
	filters := &fsmpb.ListQuery{
		Namespace: q.Namespace, Queue: q.Queue, Prefix: q.Prefix, DueAfterMs: q.DueAfterMs, DueBeforeMs: q.DueBeforeMs,
		Order: q.Order, States: slices.Sorted(slices.Values(q.States)), Labels: slices.Clone(q.Labels),
	}
	slices.SortFunc(filters.Labels, func(a, b *fsmpb.Label) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return listing(xxhash.Sum64(append([]byte(kind+"\x00"), encoded(filters)...)))
}

// listPlace is a place in a list, behind which a page begins. dueMs is 0 in a list by id.
type listPlace struct {
	dueMs int64
	slot  uint32
	id    string
}

func placeBehind(page *fsmpb.ListPage) listPlace {
	return listPlace{page.AfterDueMs, page.Slot, page.AfterId}
}

// A cursor is base64url of eight bytes of a checksum over the listing and the rest, the slot (two bytes) with a mark if
// an instant follows, the instant (eight bytes, unless it is 0), and the last id.
const (
	cursorSum    = 8
	cursorHead   = cursorSum + 2
	cursorHasDue = 1 << 15
)

func (l listing) cursor(at listPlace) string {
	raw := make([]byte, cursorSum, cursorHead+8+len(at.id))
	if at.dueMs == 0 {
		raw = binary.BigEndian.AppendUint16(raw, uint16(at.slot))
	} else {
		raw = binary.BigEndian.AppendUint16(raw, uint16(at.slot|cursorHasDue))
		raw = binary.BigEndian.AppendUint64(raw, uint64(at.dueMs))
	}
	raw = append(raw, at.id...)
	binary.BigEndian.PutUint64(raw, l.sum(raw[cursorSum:]))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (l listing) sum(rest []byte) uint64 {
	return xxhash.Sum64(append(binary.BigEndian.AppendUint64(nil, uint64(l)), rest...))
}

// decode reads a cursor. ok is false if the cursor is not this listing's.
func (l listing) decode(text string) (at listPlace, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < cursorHead || binary.BigEndian.Uint64(raw) != l.sum(raw[cursorSum:]) {
		return listPlace{}, false
	}
	at.slot, raw = uint32(binary.BigEndian.Uint16(raw[cursorSum:])), raw[cursorHead:]
	if at.slot&cursorHasDue != 0 && len(raw) >= 8 {
		at.slot, at.dueMs, raw = at.slot&^cursorHasDue, int64(binary.BigEndian.Uint64(raw)), raw[8:]
	}
	at.id = string(raw)
	if at.slot >= task.Slots || at.dueMs < 0 || at.id != "" && !isRecordID(at.id) ||
		l.cursor(at) != text { // the decoder skips line breaks
		return listPlace{}, false
	}
	return at, true
}

// isRecordID reports whether a task or a schedule may be kept under an id.
func isRecordID(id string) bool {
	if name, ok := task.SplitSeries(id); ok {
		return task.CheckName("cursor", name) == nil
	}
	return task.CheckTaskID("cursor", id) == nil
}
