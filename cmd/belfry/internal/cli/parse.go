package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
)

// Span is the value of a flag that takes a duration in the forms of the HTTP interface.
type Span struct{ d *time.Duration }

// NewSpan sets d to its default value, and returns the flag value that sets it.
func NewSpan(d *time.Duration, value time.Duration) Span {
	*d = value
	return Span{d}
}

// String returns the duration, as pflag.Value wants it.
func (s Span) String() string {
	if s.d == nil {
		return ""
	}
	return s.d.String()
}

// Set reads the duration.
func (s Span) Set(text string) error {
	d, err := parseSpan(text)
	if err == nil {
		*s.d = d
	}
	return err
}

// Type names the kind of value for the help.
func (s Span) Type() string { return "duration" }

// units are the units of durations as people spell them out.
var units = regexp.MustCompile(`^(\d+) ?(s|m|h|d|w)(?:ec|in|our|r|ay|eek|econd|inute)?s?$`)

// spelledOut returns a duration such as "10 minutes" or "2 weeks" in the form that flags take, or "" for another text.
func spelledOut(text string) string {
	m := units.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return ""
	}
	if n, err := strconv.Atoi(m[1]); err == nil && m[2] == "w" {
		return fmt.Sprint(7*n, "d")
	}
	return m[1] + m[2]
}

// parseSpan reads a duration. Its error suggests the duration that was meant.
func parseSpan(text string) (time.Duration, error) {
	d, err := client.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if span := spelledOut(text); span != "" {
		return 0, fmt.Errorf("%q is not a duration%s", text, didYouMean("", []string{span}))
	}
	if _, noUnit := strconv.ParseFloat(text, 64); noUnit == nil {
		return 0, fmt.Errorf("%q has no unit%s", text, didYouMean(text, []string{"s", "m", "h"}))
	}
	return 0, err
}

// ParseInto reads the duration of a flag into d. An empty text leaves d.
func ParseInto(d *time.Duration, flag, text string) error {
	if text == "" {
		return nil
	}
	parsed, err := parseSpan(text)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*d = parsed
	return nil
}

// ParseEach reads the durations of a flag.
func ParseEach(list *[]time.Duration, flag string, texts []string) error {
	for _, text := range texts {
		d, err := parseSpan(text)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		*list = append(*list, d)
	}
	return nil
}

// Headers reads entries of the form name: value.
func Headers(m *map[string]string, entries []string) error {
	return pairs(m, "header", entries, ":", "name: value")
}

// Labels reads entries of the form name=value or name:value.
func Labels(m *map[string]string, entries []string) error {
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
