package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variables are the values that the strings of a case name as ${name}.
type variables map[string]any

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// fill returns a value with its references filled in. A string that is one reference takes the type of the variable.
func (v variables) fill(value any) (any, error) {
	switch value := value.(type) {
	case string:
		return v.fillText(value)
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			var err error
			if out[i], err = v.fill(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, member := range value {
			filled, err := v.fill(member)
			if err != nil {
				return nil, err
			}
			key, err := v.fillText(name)
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(key)] = filled
		}
		return out, nil
	}
	return value, nil
}

func (v variables) fillText(text string) (any, error) {
	if m := reference.FindStringSubmatch(text); m != nil && m[0] == text {
		return v.value(m[1])
	}
	var failed error
	filled := reference.ReplaceAllStringFunc(text, func(ref string) string {
		value, err := v.value(ref[2 : len(ref)-1])
		if err != nil {
			failed = err
		}
		return fmt.Sprint(value)
	})
	return filled, failed
}

// value returns a variable, or the text x n times for "x*n".
func (v variables) value(name string) (any, error) {
	if text, times, ok := strings.Cut(name, "*"); ok {
		n, err := strconv.Atoi(times)
		if err != nil {
			return nil, fmt.Errorf("${%s}: %w", name, err)
		}
		return strings.Repeat(text, n), nil
	}
	value, ok := v[name]
	if !ok {
		return nil, fmt.Errorf("${%s} is not set", name)
	}
	return value, nil
}

// at returns the part of a value at a path such as tasks.0.receipt.
func at(value any, path string) (any, error) {
	for part := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case map[string]any:
			value = inner[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(inner) {
				return nil, fmt.Errorf("%s: there is no item %s in %d", path, part, len(inner))
			}
			value = inner[i]
		default:
			return nil, fmt.Errorf("%s: %s is not in %T", path, part, value)
		}
	}
	if value == nil {
		return nil, fmt.Errorf("%s is absent", path)
	}
	return value, nil
}

// match returns how a value differs from the wanted one, or "". A wanted object may have fewer members. A number equals
// its digits in a text, since clients show integers of 64 bits as either, and an instant equals any form of it.
func match(want, got any, path string) string {
	switch want := want.(type) {
	case string:
		switch want {
		case "<any>":
			return unless(got != nil, path, "is absent")
		case "<absent>":
			return unless(got == nil, path, "is "+show(got)+", and should be absent")
		}
	case map[string]any:
		inner, ok := got.(map[string]any)
		if !ok {
			return path + " is " + show(got) + ", and should be an object"
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if diff := match(want[name], inner[name], path+"."+name); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		inner, ok := got.([]any)
		if !ok || len(inner) != len(want) {
			return path + " is " + show(got) + ", and should have " + strconv.Itoa(len(want)) + " items"
		}
		for i := range want {
			if diff := match(want[i], inner[i], path+"."+strconv.Itoa(i)); diff != "" {
				return diff
			}
		}
		return ""
	}
	return unless(equal(want, got), path,
		"is "+show(got)+", and should be "+show(want))
}

// equal compares scalar values, and instants in any form.
func equal(want, got any) bool {
	if want == nil || got == nil {
		return want == got
	}
	a, b := fmt.Sprint(want), fmt.Sprint(got)
	if a == b {
		return true
	}
	at, err := time.Parse(time.RFC3339, a)
	if err != nil {
		return false
	}
	other, err := time.Parse(time.RFC3339, b)
	return err == nil && at.Equal(other)
}

func unless(ok bool, path, diff string) string {
	if ok {
		return ""
	}
	return path + " " + diff
}

func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > 300 {
		return string(text[:300]) + "…"
	}
	return string(text)
}
