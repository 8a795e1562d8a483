package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/internal/contract"
)

// pair is a member of a map of strings. value is nil for a null, if nulls are allowed.
type pair struct {
	name  string
	value *string
}

// pairs reads an object of strings, sorted by name. It refuses names that are equal after fold.
func pairs(r *contract.Reader, field string, fold func(string) string, nulls bool) ([]pair, error) {
	var out []pair
	err := r.Each(field, func(name []byte) error {
		p := pair{name: fold(string(name))}
		if !nulls || !r.Null() {
			value, err := r.Text(field + "." + contract.Clip(p.name))
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
			return nil, contract.Twice(field + "." + out[i].name)
		}
	}
	return out, nil
}

func asIs(name string) string { return name }

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

func labels(r *contract.Reader) ([]*fsmpb.Label, error) {
	found, err := pairs(r, "labels", asIs, false)
	if err != nil {
		return nil, err
	}
	var out []*fsmpb.Label
	for _, p := range found {
		out = append(out, &fsmpb.Label{Name: p.name, Value: *p.value})
	}
	return out, nil
}

func headers(r *contract.Reader) ([]*fsmpb.Header, error) {
	found, err := pairs(r, "target.headers", lowerASCII, false)
	if err != nil {
		return nil, err
	}
	var out []*fsmpb.Header
	for _, p := range found {
		out = append(out, &fsmpb.Header{Name: p.name, Value: *p.value})
	}
	return out, nil
}

func target(r *contract.Reader) (*fsmpb.Target, error) {
	t, seen := new(fsmpb.Target), contract.Set(0)
	err := r.Object("target", &contract.TargetObject, &seen, func(f contract.Field) (err error) {
		switch f {
		case contract.URL:
			t.Url, err = targetURL(r)
		case contract.Headers:
			t.Headers, err = headers(r)
		case contract.Timeout:
			t.TimeoutMs, err = timeout(r)
		}
		return err
	})
	if err == nil && t.Url == "" {
		err = &task.FieldError{Field: "target.url", Detail: "is absent or empty"}
	}
	return t, err
}

func targetURL(r *contract.Reader) (string, error) {
	const field = "target.url"
	text, err := r.Text(field)
	if err == nil {
		if wrong := targeturl.CheckQuery(text); wrong != nil {
			err = &task.FieldError{Field: field, Detail: wrong.Error()}
		}
	}
	return text, err
}

func timeout(r *contract.Reader) (int64, error) {
	return positive(r, "target.timeout", task.MaxTimeout, "10m")
}

// retry reads the retry policy. It returns an empty policy as nil.
func retry(r *contract.Reader) (*fsmpb.Retry, error) {
	policy, seen := new(fsmpb.Retry), contract.Set(0)
	err := r.Object("retry", &contract.RetryObject, &seen, func(f contract.Field) (err error) {
		switch f {
		case contract.MaxAttempts:
			policy.MaxAttempts, err = maxAttempts(r)
		case contract.MinBackoff:
			policy.MinBackoffMs, err = backoff(r, "retry.min_backoff")
		case contract.MaxBackoff:
			policy.MaxBackoffMs, err = backoff(r, "retry.max_backoff")
		case contract.Delays:
			policy.DelaysMs, err = delays(r)
		}
		return err
	})
	if err != nil || seen == 0 {
		return nil, err
	}
	return policy, nil
}

// delays reads the pauses between attempts, at least one, in milliseconds.
func delays(r *contract.Reader) (delays []int64, err error) {
	const field = "retry.delays"
	err = r.Array(field, func(i int) error {
		if i == task.MaxRetryDelays {
			return &task.FieldError{Field: field, Detail: "has too many", Limit: delaysRule}
		}
		ms, err := backoff(r, fmt.Sprintf("%s[%d]", field, i))
		delays = append(delays, ms)
		return err
	})
	if err == nil && len(delays) == 0 {
		err = &task.FieldError{Field: field, Detail: "is empty", Limit: delaysRule}
	}
	return delays, err
}

var delaysRule = fmt.Sprintf("1 to %d", task.MaxRetryDelays)

func backoff(r *contract.Reader, name string) (int64, error) {
	return positive(r, name, task.MaxBackoff, "7d")
}

func maxAttempts(r *contract.Reader) (uint32, error) {
	n, err := r.Whole("retry.max_attempts", 1, task.MaxAttempts)
	return uint32(n), err
}

const spanLimit = "0s to 100 years (36500d)"

// instantField reads an instant from 1970 to 100 years from now.
func instantField(field, text string, now time.Time) (int64, error) {
	ms, err := contract.ParseInstant(text)
	if err != nil {
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	}
	if ms < 0 {
		return 0, &task.FieldError{Field: field, Detail: "is too early", Limit: "1970-01-01T00:00:00Z or later"}
	}
	if latest := now.Add(task.MaxDelay); ms > contract.CeilUnixMs(latest) {
		return 0, &task.FieldError{Field: field, Detail: "is too far ahead", Limit: "100 years from now"}
	}
	return ms, nil
}

// spanField reads a duration from 0 to 100 years.
func spanField(field, text string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: field, Detail: err.Error()}
	case d < 0:
		return 0, &task.FieldError{Field: field, Detail: "is negative", Limit: spanLimit}
	case d > task.MaxDelay:
		return 0, &task.FieldError{Field: field, Detail: "is too long", Limit: spanLimit}
	}
	return d, nil
}

// positive reads a duration of more than 0 and at most limit, and returns whole milliseconds, rounded up.
func positive(r *contract.Reader, field string, limit time.Duration, limitText string) (int64, error) {
	d, err := r.Duration(field)
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return 0, &task.FieldError{Field: field, Detail: "is not longer than nothing",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	case d > limit:
		return 0, &task.FieldError{Field: field, Detail: "is too long",
			Limit: fmt.Sprintf("more than 0s, at most %s", limitText)}
	}
	return contract.CeilMs(d), nil
}

// span reads a duration within bounds.
func span(r *contract.Reader, name string, least, most time.Duration, limit string) (time.Duration, error) {
	text, err := r.Text(name)
	if err != nil {
		return 0, err
	}
	return boundedSpan(name, text, least, most, limit)
}

func boundedSpan(name, text string, least, most time.Duration, limit string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: name, Detail: err.Error()}
	case d < least:
		return 0, &task.FieldError{Field: name, Detail: "is too short", Limit: limit}
	case d > most:
		return 0, &task.FieldError{Field: name, Detail: "is too long", Limit: limit}
	}
	return time.Duration(contract.CeilMs(d)) * time.Millisecond, nil
}
