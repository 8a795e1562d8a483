package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
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

// Read reads the value of a flag into a variable. Its error names the flag.
func Read[V, T any](into *T, flag string, value V, parse func(V) (T, error)) error {
	parsed, err := parse(value)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*into = parsed
	return nil
}

// ParseInto reads the duration of a flag into d. An empty text leaves d.
func ParseInto(d *time.Duration, flag, text string) error {
	if text == "" {
		return nil
	}
	return Read(d, flag, text, parseSpan)
}

// ParseEach reads the durations of a flag.
func ParseEach(list *[]time.Duration, flag string, texts []string) error {
	for _, text := range texts {
		var d time.Duration
		if err := Read(&d, flag, text, parseSpan); err != nil {
			return err
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

// Times reads the instants of a command's flags. An instant that is not written as RFC 3339 is echoed on the standard
// error as it was understood.
type Times struct {
	cmd  *cobra.Command
	zone string // --tz
	rule string // zone of instants without one, if --tz is not given; empty: the machine's
}

// AddFlags adds --tz.
func (t *Times) AddFlags(cmd *cobra.Command) {
	t.cmd = cmd
	cmd.Flags().StringVar(&t.zone, "tz", "",
		"time `zone` of instants without one, as in Europe/Berlin (default: the machine's)")
}

// Prefer sets the zone of instants without one, for a command without --tz.
func (t *Times) Prefer(zone string) { t.rule = zone }

// At reads the instant of a flag into at. An empty text leaves at.
func (t *Times) At(at *time.Time, flag, text string) error {
	if text == "" {
		return nil
	}
	zone, err := t.location()
	if err != nil {
		return err
	}
	if parsed, err := client.ParseInstant(text); err == nil {
		*at = parsed
		return nil
	}
	now := t.now()
	parsed, err := instant.Parse(text, now, zone)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	*at = parsed.UTC()
	t.cmd.PrintErrln(flag, instant.Describe(parsed, now, zone))
	return nil
}

// Due is At for the instant at which tasks become due. It says on the standard error that one in the past means now.
func (t *Times) Due(at *time.Time, flag, text string) error {
	err := t.At(at, flag, text)
	if err == nil && text != "" && at.Before(t.now()) {
		t.cmd.PrintErrf("--%s is in the past: due at once\n", flag)
	}
	return err
}

// now returns the time by the clock of the node that the command will call.
func (t *Times) now() time.Time {
	if t.cmd != nil {
		if conn, err := ConnectionOf(t.cmd.Flags()); err == nil {
			return conn.askClock(t.cmd.Context())
		}
	}
	return time.Now()
}

// location returns the zone of instants without one.
func (t *Times) location() (*time.Location, error) {
	name, flag := t.zone, "tz"
	if name == "" {
		name, flag = t.rule, "zone"
	}
	if name == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("--%s: the time zone %q is unknown; one is like Europe/Berlin", flag, name)
	}
	return zone, nil
}

// AtOrSpan reads a flag that takes an instant or a duration.
func (t *Times) AtOrSpan(at *time.Time, d *time.Duration, flag, text string) error {
	if text == "" || ParseInto(d, flag, text) == nil {
		return nil
	}
	err := t.At(at, flag, text)
	var refusal *instant.Error
	if errors.As(err, &refusal) && !refusal.Read {
		return fmt.Errorf("--%s %q is neither an instant, like 2026-11-21T10:00:00Z or \"tomorrow 9:00\", nor a duration, "+
			"like 30m", flag, text)
	}
	return err
}

// AtOrAfter reads a flag that takes an instant, or a duration from now.
func (t *Times) AtOrAfter(at *time.Time, flag, text string) error {
	return t.fromNow(at, flag, text, 1)
}

// AtOrBefore reads a flag that takes an instant, or a duration before now.
func (t *Times) AtOrBefore(at *time.Time, flag, text string) error {
	return t.fromNow(at, flag, text, -1)
}

func (t *Times) fromNow(at *time.Time, flag, text string, sign time.Duration) error {
	if text == "" {
		return nil
	}
	var span time.Duration
	var read time.Time
	if err := t.AtOrSpan(&read, &span, flag, text); err != nil {
		return err
	}
	if *at = read; read.IsZero() {
		*at = t.now().Add(sign * span)
	}
	return nil
}

// HiddenName lets a command take a flag under an earlier name, which no help shows.
func HiddenName(cmd *cobra.Command, earlier, flag string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == earlier {
			name = flag
		}
		return pflag.NormalizedName(name)
	})
}
