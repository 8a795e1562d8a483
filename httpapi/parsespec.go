package httpapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// pair is a member of a map of strings. Value is nil for a null, where that is allowed.
type pair struct {
	name  string
	value *string
}

// pairs reads an object of strings, sorted by name. A name twice, in whatever spelling fold makes equal, is refused.
func pairs(s *scanner, field string, fold func(string) string, nulls bool) ([]pair, error) {
	var out []pair
	err := s.members(field, func(name []byte) error {
		p := pair{name: fold(string(name))}
		if !nulls || !s.null() {
			value, err := s.text(field + "." + clip(p.name))
			if err != nil {
				return err
			}
			p.value = &value
		}
		out = append(out, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(out); i++ {
		if out[i].name == out[i-1].name {
			return nil, twice(field + "." + out[i].name)
		}
	}
	return out, nil
}

func asIs(name string) string { return name }

func labels(s *scanner) ([]*fsmpb.Label, error) {
	found, err := pairs(s, "labels", asIs, false)
	if err != nil {
		return nil, err
	}
	var out []*fsmpb.Label
	for _, p := range found {
		out = append(out, &fsmpb.Label{Name: p.name, Value: *p.value})
	}
	return out, nil
}

func headers(s *scanner) ([]*fsmpb.Header, error) {
	found, err := pairs(s, "target.headers", strings.ToLower, false)
	if err != nil {
		return nil, err
	}
	var out []*fsmpb.Header
	for _, p := range found {
		out = append(out, &fsmpb.Header{Name: p.name, Value: *p.value})
	}
	return out, nil
}

// once keeps the members of a small object apart: each known, and each at most once.
type once struct {
	prefix string
	names  []string
	seen   uint
}

func (o *once) admit(name []byte) (string, error) {
	i := slices.Index(o.names, string(name))
	full := o.prefix + clip(string(name))
	switch {
	case i < 0:
		return "", &task.FieldError{Field: full, Detail: "is not a field that is known"}
	case o.seen&(1<<i) != 0:
		return "", twice(full)
	}
	o.seen |= 1 << i
	return o.names[i], nil
}

func (p *parser) target(s *scanner) (*fsmpb.Target, error) {
	t := new(fsmpb.Target)
	fields := once{prefix: "target.", names: []string{"url", "headers", "timeout"}}
	err := s.members("target", func(name []byte) error {
		member, err := fields.admit(name)
		if err != nil {
			return err
		}
		switch member {
		case "url":
			t.Url, err = s.text("target.url")
		case "headers":
			t.Headers, err = headers(s)
		case "timeout":
			t.TimeoutMs, err = s.timeout()
		}
		return err
	})
	if err == nil && t.Url == "" {
		err = &task.FieldError{Field: "target.url", Detail: "is absent or empty"}
	}
	return t, err
}

func (s *scanner) timeout() (int64, error) {
	return s.positive("target.timeout", task.MaxTimeout, "10m")
}

// retry reads the retry policy; one that says nothing is kept as none.
func retry(s *scanner) (*fsmpb.Retry, error) {
	r := new(fsmpb.Retry)
	fields := retryFields()
	err := s.members("retry", func(name []byte) error {
		member, err := fields.admit(name)
		if err != nil {
			return err
		}
		switch member {
		case "max_attempts":
			r.MaxAttempts, err = s.maxAttempts()
		case "min_backoff":
			r.MinBackoffMs, err = s.backoff("retry.min_backoff")
		case "max_backoff":
			r.MaxBackoffMs, err = s.backoff("retry.max_backoff")
		case "delays":
			r.DelaysMs, err = s.delays()
		}
		return err
	})
	if err != nil || fields.seen == 0 {
		return nil, err
	}
	return r, nil
}

func retryFields() once {
	return once{prefix: "retry.", names: []string{"max_attempts", "min_backoff", "max_backoff", "delays"}}
}

// delays reads the waits between attempts, at least one.
func (s *scanner) delays() (delays []int64, err error) {
	const field = "retry.delays"
	err = s.array(field, func(i int) error {
		if i == task.MaxRetryDelays {
			return &task.FieldError{Field: field, Detail: "has too many", Limit: delaysRule}
		}
		ms, err := s.backoff(fmt.Sprintf("%s[%d]", field, i))
		delays = append(delays, ms)
		return err
	})
	if err == nil && len(delays) == 0 {
		err = &task.FieldError{Field: field, Detail: "is empty", Limit: delaysRule}
	}
	return delays, err
}

var delaysRule = fmt.Sprintf("1 to %d", task.MaxRetryDelays)

func (s *scanner) backoff(name string) (int64, error) {
	return s.positive(name, task.MaxBackoff, "7d")
}

func (s *scanner) maxAttempts() (uint32, error) {
	n, err := s.whole("retry.max_attempts", 1, task.MaxAttempts)
	return uint32(n), err
}

// whole reads a whole number within bounds.
func (s *scanner) whole(name string, least, most int64) (int64, error) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, s.wrongType(name, "a whole number")
	}
	raw, err := s.value()
	if err != nil {
		return 0, err
	}
	digits := strings.TrimPrefix(string(raw), "-")
	if strings.Trim(digits, "0123456789") != "" {
		return 0, &task.FieldError{Field: name, Detail: "must be a whole number"}
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < least || n > most {
		limit := fmt.Sprintf("%d to %d", least, most)
		return 0, &task.FieldError{Field: name, Detail: "is " + clip(string(raw)), Limit: limit}
	}
	return n, nil
}
