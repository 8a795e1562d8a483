package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
)

// span is the value of a flag that takes a duration in the forms of the HTTP interface.
type span struct{ d *time.Duration }

func newSpan(d *time.Duration, value time.Duration) span {
	*d = value
	return span{d}
}

// The methods of pflag.Value.

func (s span) String() string {
	if s.d == nil {
		return ""
	}
	return s.d.String()
}

func (s span) Set(text string) error {
	d, err := client.ParseDuration(text)
	if err == nil {
		*s.d = d
	}
	return err
}

func (s span) Type() string { return "duration" }

// parseInto reads the duration of a flag into d. An empty text leaves d.
func parseInto(d *time.Duration, flag, text string) error {
	if text == "" {
		return nil
	}
	parsed, err := client.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*d = parsed
	return nil
}

// parseEach reads the durations of a flag.
func parseEach(list *[]time.Duration, flag string, texts []string) error {
	for _, text := range texts {
		d, err := client.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		*list = append(*list, d)
	}
	return nil
}

// parseAt reads the instant of a flag into at. An empty text leaves at.
func parseAt(at *time.Time, flag, text string) error {
	if text == "" {
		return nil
	}
	parsed, err := client.ParseInstant(text)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*at = parsed
	return nil
}

// parseAtOrSpan reads a flag that takes an instant or a duration.
func parseAtOrSpan(at *time.Time, d *time.Duration, flag, text string) error {
	if parseAt(at, flag, text) == nil || parseInto(d, flag, text) == nil {
		return nil
	}
	return fmt.Errorf("--%s %q is neither an instant, like 2026-11-21T10:00:00Z, nor a duration, like 30m", flag, text)
}

// headers reads entries of the form name: value.
func headers(m *map[string]string, entries []string) error {
	return pairs(m, "header", entries, ":", "name: value")
}

// labelsInto reads entries of the form name=value or name:value.
func labelsInto(m *map[string]string, entries []string) error {
	return pairs(m, "label", entries, "=:", "name=value")
}

// pairs splits each entry into a name and a value at the first of these separators.
func pairs(m *map[string]string, flag string, entries []string, separators, form string) error {
	for _, entry := range entries {
		at := strings.IndexAny(entry, separators)
		if at <= 0 {
			return fmt.Errorf("--%s %q is not %s", flag, entry, form)
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[strings.TrimSpace(entry[:at])] = strings.TrimSpace(entry[at+1:])
	}
	return nil
}
