package cli

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

// flagsOfFields are the flags whose names differ from those of the fields that they set, in the order of preference.
var flagsOfFields = map[string][]string{
	"time_zone": {"zone", "tz"}, "delay": {"in"}, "fire_at": {"at"}, "to": {"at", "in"}, "timeout": {"attempt-timeout"},
	"payload_base64": {"payload-file", "payload"}, "payload": {"payload", "payload-file"}, "after": {"due-after"},
	"before": {"due-before"}, "keep": {"keep-done"}, "ends_at": {"expires-in"},
}

// argsOfFields are the names of arguments by the fields of calls.
var argsOfFields = map[string][]string{
	"id": {"ID"}, "queue": {"QUEUE", "NAME"}, "name": {"NAME"}, "namespace": {"NAME"}, "calendar": {"NAME"},
	"receipt": {"RECEIPT"}, "by": {"DURATION"}, "shard": {"SHARD"}, "slots": {"SLOTS"}, "node": {"NODE"},
}

// beforeRefusal is the method and the path of a call in front of its refusal.
var beforeRefusal = regexp.MustCompile(`(GET|HEAD|PUT|POST|PATCH|DELETE) /.*: $`)

// predicate is the beginning of a fault whose subject is the field.
var predicate = regexp.MustCompile(`^(is|has|must|and) `)

// plainRefusal returns the message of an error that a node's refusal has caused. A refusal of wrong values is told in
// the words of the command line: with its flags and arguments, without the call.
func plainRefusal(cmd *cobra.Command, err error, refusal *client.Error) string {
	text, technical := err.Error(), refusal.Error()
	before, after, found := strings.Cut(text, technical)
	if !found || refusal.Type == "" || refusal.Status >= 500 || refusal.Status == http.StatusTooManyRequests {
		return text
	}
	plain, title := refusal.Detail, strings.TrimSuffix(refusal.Title, ".")
	if title != "" {
		title = strings.ToLower(title[:1]) + title[1:]
	}
	switch {
	case plain == "":
		plain = title
	case errors.Is(refusal, client.ErrConflict) && refusal.State == "" && refusal.Field == "":
		plain = title + ": " + plain // the things that are in the way
	}
	if refusal.Field != "" {
		plain = strings.TrimLeft(strings.TrimPrefix(plain, refusal.Field), ": ")
		separator := ": "
		if predicate.MatchString(plain) {
			separator = " "
		}
		plain = settingOf(cmd, refusal.Field) + separator + plain
	}
	if refusal.Limit != "" {
		plain += "; allowed: " + refusal.Limit
	}
	return beforeRefusal.ReplaceAllString(before, "") + inFlags(cmd, plain) + after
}

// fieldName is a word that only the name of a field can be.
var fieldName = regexp.MustCompile(`\b[a-z]+([._][a-z]+)+\b`)

// inFlags replaces the names of fields in a text by the flags that set them. It leaves the values of callers, which are
// in quotes.
func inFlags(cmd *cobra.Command, text string) string {
	parts := strings.Split(text, `"`)
	for i := 0; i < len(parts); i += 2 {
		parts[i] = fieldName.ReplaceAllStringFunc(parts[i], func(field string) string { return settingOf(cmd, field) })
	}
	return strings.Join(parts, `"`)
}

// place is the index of an element in the path of a field.
var place = regexp.MustCompile(`\[\d+\]`)

// settingOf returns the flag or the argument of a command that sets a field of its call, or the field itself.
func settingOf(cmd *cobra.Command, field string) string {
	if inside, isPatch := strings.CutPrefix(field, "patch."); isPatch {
		return "--patch: " + inside // the caller gave an object
	}
	path := strings.Split(place.ReplaceAllString(field, ""), ".")
	last := path[len(path)-1]
	var names []string
	for _, name := range append([]string{strings.Join(path, "-"), last}, path...) {
		dashed := strings.ReplaceAll(name, "_", "-")
		names = append(append(names, flagsOfFields[name]...), dashed, strings.TrimSuffix(dashed, "s"))
	}
	args := Args(cmd.Use)
	for _, name := range argsOfFields[last] {
		for _, arg := range args {
			if len(path) == 1 && arg.Name == name {
				return name
			}
		}
	}
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && (!IsConnection(f) || name == "namespace") {
			return "--" + name
		}
	}
	if f := cmd.Flags().Lookup("clear"); f != nil && f.Changed {
		return "--clear " + field // the name of a field is the value
	}
	return field
}
