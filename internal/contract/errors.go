package contract

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError reports where a text stops being the expected JSON (RFC 8259).
type SyntaxError struct {
	Offset int // characters before the place; -1: the text as a whole
	Detail string
}

func (e *SyntaxError) Error() string {
	if e.Offset < 0 {
		return e.Detail
	}
	return fmt.Sprintf("%s at character %d", e.Detail, e.Offset+1)
}

// MemberError reports a member of the wrong form: it is unknown, is given twice, or has a value of another type or
// range. A well-formed value that breaks a rule of tasks or queues is a FieldError of package fsm/task.
type MemberError struct {
	Name   string // as the caller wrote it, with the enclosing objects: "target.url"
	Detail string // continues a sentence that begins with the name: "must be a string"
	Limit  string // the range that the value is outside of; empty: none
}

func (e *MemberError) Error() string {
	if e.Limit != "" {
		return fmt.Sprintf("%s %s (limit %s)", e.Name, e.Detail, e.Limit)
	}
	return e.Name + " " + e.Detail
}

// Twice returns the error for a member that its object has twice.
func Twice(name string) error { return &MemberError{Name: name, Detail: "is given twice"} }

// Clip shortens a quotation of a caller's text to about 128 bytes. It cuts no character in two, and quotes no API key
// and no signing secret, which a caller may have put into a wrong field or into the path.
func Clip(text string) string {
	const most = 128
	if strings.Contains(text, "bfy_") || strings.Contains(text, "whsec_") {
		return "[redacted]"
	}
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
