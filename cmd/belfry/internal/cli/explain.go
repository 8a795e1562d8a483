package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Explain returns the message of an error for the user of a command. It leaves out the steps of a failed dial, and adds
// a remedy.
func Explain(cmd *cobra.Command, err error) string {
	var refusal *client.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refusal): // its text is a node's, or that of a server which is none
		return output.Text(plainRefusal(cmd, err, refusal) + remedy(err))
	case strings.Contains(err.Error(), keyFile): // no call was made
		_, fault, _ := strings.Cut(err.Error(), keyFile)
		return output.Lines("the key file" + fault)
	case !errors.As(err, &op) || op.Op != "dial":
		return output.Lines(err.Error() + remedy(err))
	}
	addrs, flagErr := cmd.Flags().GetStringSlice("addr")
	if flagErr != nil {
		return err.Error() // not a command that calls a cluster
	}
	return fmt.Sprintf("no node answers at %s: %v; start one with `belfry local`, or name another with --addr",
		strings.Join(addrs, ", "), cause(op))
}

// remedy returns the end of a message about keys or TLS, which says what to do. It is empty for other errors.
func remedy(err error) string {
	var refusal *client.Error
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		return "; show a key with --key-file, set " + KeyVariable + ", or name a context with --context"
	case errors.As(err, &authority):
		return "; name the file of the nodes' authority with --ca"
	case errors.As(err, &certificate):
		return "; the certificate must have the name in --addr"
	case IsUnknownRoute(err):
		return "; is there a path in --addr, which is like http://127.0.0.1:8400, or a node of another version?"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "; the node speaks plain HTTP: name it as http:// in --addr"
	case errors.As(err, &refusal) && refusal.Status == http.StatusBadRequest && strings.Contains(refusal.Detail, toTLS):
		return "; the node speaks TLS: name it as https:// in --addr"
	}
	return ""
}

// IsUnknownRoute reports whether a node has refused a call that it does not know.
func IsUnknownRoute(err error) bool {
	var refusal *client.Error
	return errors.As(err, &refusal) && strings.HasSuffix(refusal.Type, ":unknown-route")
}

// keyFile begins the fault of a key file, behind the call that it was for.
const keyFile = ": the key file"

// toTLS is the answer of net/http to plain HTTP at a port with TLS.
const toTLS = "HTTP request to an HTTPS server"

// cause returns the reason why a connection could not be made, without the steps that led there.
func cause(op *net.OpError) error {
	var call *os.SyscallError
	var name *net.DNSError
	switch {
	case errors.As(op, &call):
		return call.Err
	case errors.As(op, &name):
		return errors.New(name.Err)
	}
	return op.Err
}

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
