package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// pair is a member of a map of strings. Value is nil for a null, where that is allowed.
type pair struct {
	name  string
	value *string
}

// pairs reads an object of strings, sorted by name. A name twice, in whatever spelling fold makes equal, is refused.
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
	found, err := pairs(r, "target.headers", strings.ToLower, false)
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
			t.Url, err = r.Text("target.url")
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

func timeout(r *contract.Reader) (int64, error) {
	return positive(r, "target.timeout", task.MaxTimeout, "10m")
}

// retry reads the retry policy; one that says nothing is kept as none.
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

// delays reads the waits between attempts, at least one.
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
