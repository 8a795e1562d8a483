package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// nobodysRevision is a revision that no task has: revisions begin with 1.
const nobodysRevision = 0

func appendETag(b []byte, revision uint64) []byte {
	return append(strconv.AppendUint(append(b, '"'), revision, 10), '"')
}

// takeHeaders reads the conditions and the idempotency key of a single call.
func (o *order) takeHeaders(h http.Header) error {
	if values := h["If-Match"]; len(values) > 0 {
		if err := parseIfMatch("If-Match", strings.Join(values, ","), &o.condition); err != nil {
			return err
		}
	}
	if values := h["If-None-Match"]; len(values) > 0 {
		if err := parseIfNoneMatch("If-None-Match", strings.Join(values, ","), &o.condition); err != nil {
			return err
		}
	}
	return o.takeKey(h)
}

func (o *order) takeKey(h http.Header) error {
	switch values := h[keyHeader]; len(values) {
	case 0:
		return nil
	case 1:
		return o.setKey(keyHeader, values[0])
	}
	return contract.Twice(keyHeader)
}

// parseIfMatch reads "*", or entity tags separated by commas (RFC 9110, section 13.1.1). It also accepts a revision
// without quotes. A tag that is weak or no revision matches no task.
func parseIfMatch(field, text string, c *fsmpb.Condition) error {
	if strings.Trim(text, " \t") == "*" {
		c.Present = true
		return nil
	}
	for tag := range strings.SplitSeq(text, ",") {
		revision, ok := parseETag(strings.Trim(tag, " \t"))
		if !ok {
			return &task.FieldError{Field: field, Detail: `must be * or entity tags as ETag gives them, like "8841" in quotes`}
		}
		c.Revisions = append(c.Revisions, revision)
	}
	return nil
}

func parseETag(tag string) (revision uint64, ok bool) {
	if n, err := strconv.ParseUint(tag, 10, 64); err == nil {
		return n, true
	}
	strong, weak := strings.CutPrefix(tag, "W/")
	if len(strong) < 2 || strong[0] != '"' || strong[len(strong)-1] != '"' {
		return 0, false
	}
	n, err := strconv.ParseUint(strong[1:len(strong)-1], 10, 64)
	if err != nil || weak {
		return nobodysRevision, true
	}
	return n, true
}

func parseIfNoneMatch(field, text string, c *fsmpb.Condition) error {
	if strings.Trim(text, " \t") != "*" {
		return &task.FieldError{Field: field, Detail: "must be *"}
	}
	c.Absent = true
	return nil
}

// ifMatch reads a batch line's if_match: a string as in the header, or a revision as a number.
func ifMatch(r *contract.Reader, c *fsmpb.Condition) error {
	const name = "if_match"
	switch first := r.Peek(); {
	case first == '"':
		text, err := r.Text(name)
		if err != nil {
			return err
		}
		return parseIfMatch(name, text, c)
	case '0' <= first && first <= '9':
		raw, err := r.Value()
		if err != nil {
			return err
		}
		return parseIfMatch(name, string(raw), c)
	}
	return r.WrongType(name, "a string or a revision")
}

func ifNoneMatch(r *contract.Reader, c *fsmpb.Condition) error {
	text, err := r.Text("if_none_match")
	if err != nil {
		return err
	}
	return parseIfNoneMatch("if_none_match", text, c)
}
