package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

func (s *Server) list(c echo.Context) error {
	query, err := parameters(c.Request(), "state", "queue", "prefix", "label", "due_before", "limit", "cursor", "include")
	if err != nil {
		return err
	}
	q, err := parseList(query, s.arrived().at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.RequestTimeout)
	defer cancel()
	page, err := s.cfg.Backend.List(ctx, q)
	if err != nil {
		return s.readFailed(err)
	}
	s.writePage(c.Response(), page, q.IncludePayload)
	return nil
}

// writePage answers task by task, so that a page of large payloads is not held twice.
func (s *Server) writePage(w http.ResponseWriter, page *fsmpb.ListPage, payloads bool) {
	h := w.Header()
	h["Content-Type"] = []string{jsonType}
	h["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(http.StatusOK)
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, `{"tasks":[`...)
	for i, t := range page.Tasks {
		if i > 0 {
			b = append(b, ',')
		}
		v := viewOf(t)
		if !payloads {
			v.payload, v.payloadIsBytes = nil, false
		}
		b = v.append(b)
		if len(b) > 32<<10 {
			if _, err := w.Write(b); err != nil {
				return // the client is gone
			}
			b = b[:0]
		}
	}
	b = append(b, `],"next_cursor":`...)
	if page.More && page.Slot < fsm.Slots { // a page that ends with the last slot has nothing behind it
		b = append(append(append(b, '"'), encodeCursor(page.Slot, page.AfterId)...), '"')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}\n"...)
	_, _ = w.Write(b) // the last one: an error has nobody left to hear it
	*buffer = b
}

func parseList(query url.Values, now time.Time) (*fsmpb.ListQuery, error) {
	q := &fsmpb.ListQuery{Namespace: fsm.DefaultNamespace, Limit: fsm.DefaultListLimit}
	for _, p := range []struct {
		name string
		read func(q *fsmpb.ListQuery, value string) error
	}{
		{"queue", listQueue}, {"prefix", listPrefix}, {"limit", listLimit}, {"cursor", listCursor},
		{"include", listInclude},
		{"due_before", func(q *fsmpb.ListQuery, value string) error { return listDueBefore(q, value, now) }},
	} {
		switch values := query[p.name]; len(values) {
		case 0:
		case 1:
			if err := p.read(q, values[0]); err != nil {
				return nil, err
			}
		default:
			return nil, twice(p.name)
		}
	}
	if err := listStates(q, query["state"]); err != nil {
		return nil, err
	}
	return q, listLabels(q, query["label"])
}

func listQueue(q *fsmpb.ListQuery, value string) error {
	q.Queue = value
	return checked(fsm.CheckName("queue", value))
}

func listPrefix(q *fsmpb.ListQuery, value string) error {
	q.Prefix = value
	if value == "" {
		return nil
	}
	return checked(fsm.CheckName("prefix", value))
}

// checked makes a plain error of a FieldError, nil of nil.
func checked(err *fsm.FieldError) error {
	if err != nil {
		return err
	}
	return nil
}

func listLimit(q *fsmpb.ListQuery, value string) error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n < 1 || n > fsm.MaxListLimit {
		return fieldProblem("limit", fmt.Sprintf("is %q", clip(value)), fmt.Sprintf("1 to %d", fsm.MaxListLimit))
	}
	q.Limit = uint32(n)
	return nil
}

func listInclude(q *fsmpb.ListQuery, value string) error {
	if value != "payload" {
		return fieldProblem("include", fmt.Sprintf("is %q and can only be payload", clip(value)), "")
	}
	q.IncludePayload = true
	return nil
}

func listDueBefore(q *fsmpb.ListQuery, value string, now time.Time) error {
	// In a query an unescaped plus is a space, and an instant has no spaces.
	ms, err := instantField("due_before", strings.ReplaceAll(value, " ", "+"), now)
	q.DueBeforeMs = max(ms, 1) // 0 would be any
	return err
}

func listCursor(q *fsmpb.ListQuery, value string) error {
	slot, after, ok := decodeCursor(value)
	if !ok {
		return fieldProblem("cursor", "is not one that a list answered", "")
	}
	q.Slot, q.AfterId = slot, after
	return nil
}

func listStates(q *fsmpb.ListQuery, values []string) error {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			state := stateOf(name)
			if state == fsmpb.State_STATE_UNSPECIFIED {
				return fieldProblem("state", fmt.Sprintf("%q is not a state", clip(name)),
					"scheduled, ready, firing, retrying, delivered, dead, cancelled")
			}
			if !slices.Contains(q.States, state) {
				q.States = append(q.States, state)
			}
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
	if len(values) > fsm.MaxLabels {
		return fieldProblem("label", fmt.Sprintf("is given %d times", len(values)), fmt.Sprint(fsm.MaxLabels))
	}
	for _, value := range values {
		end := strings.IndexAny(value, ":=")
		if end <= 0 {
			return fieldProblem("label", fmt.Sprintf("is %q and must be name:value or name=value", clip(value)), "")
		}
		q.Labels = append(q.Labels, &fsmpb.Label{Name: value[:end], Value: value[end+1:]})
	}
	return nil
}

// A cursor is base64url of: four bytes of a checksum over the rest, the slot (two bytes), the last id.
const cursorHead = 4 + 2

func encodeCursor(slot uint32, after string) string {
	raw := binary.BigEndian.AppendUint16(make([]byte, 4, cursorHead+len(after)), uint16(slot))
	raw = append(raw, after...)
	binary.BigEndian.PutUint32(raw, uint32(xxhash.Sum64(raw[4:])))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeCursor(text string) (slot uint32, after string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < cursorHead || binary.BigEndian.Uint32(raw) != uint32(xxhash.Sum64(raw[4:])) {
		return 0, "", false
	}
	slot, after = uint32(binary.BigEndian.Uint16(raw[4:])), string(raw[cursorHead:])
	if slot >= fsm.Slots || after != "" && fsm.CheckName("cursor", after) != nil ||
		encodeCursor(slot, after) != text { // the decoder skips line breaks
		return 0, "", false
	}
	return slot, after, true
}
