package contract

import (
	"fmt"
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

// FieldError reports that the value of one member is refused.
type FieldError struct {
	Field  string // as the caller wrote it, with the enclosing objects: "target.url"
	Detail string // continues a sentence that begins with the field: "must be a string"
	Limit  string // the limit that the value breaks; empty: none
}

func (e *FieldError) Error() string {
	if e.Limit != "" {
		return fmt.Sprintf("%s %s (limit %s)", e.Field, e.Detail, e.Limit)
	}
	return e.Field + " " + e.Detail
}

// Twice returns the error for a member that its object has twice.
func Twice(field string) error { return &FieldError{Field: field, Detail: "is given twice"} }

// Clip shortens a quotation of a caller's text to about 128 bytes. It cuts no character in two.
func Clip(text string) string {
	const most = 128
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
