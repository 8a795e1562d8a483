package contract

import (
	"fmt"
	"unicode/utf8"
)

// SyntaxError says where a text stops being the JSON (RFC 8259) that was expected.
type SyntaxError struct {
	Offset int // characters before the place; -1: the text as a whole is meant
	Detail string
}

func (e *SyntaxError) Error() string {
	if e.Offset < 0 {
		return e.Detail
	}
	return fmt.Sprintf("%s at character %d", e.Detail, e.Offset+1)
}

// FieldError refuses the value of one member.
type FieldError struct {
	Field  string // as the caller wrote it, with the objects around it: "target.url"
	Detail string // continues a sentence that begins with the field: "must be a string"
	Limit  string // the limit that it breaks; empty: none
}

func (e *FieldError) Error() string {
	if e.Limit != "" {
		return fmt.Sprintf("%s %s (limit %s)", e.Field, e.Detail, e.Limit)
	}
	return e.Field + " " + e.Detail
}

// Twice refuses a member that its object has twice.
func Twice(field string) error { return &FieldError{Field: field, Detail: "is given twice"} }

// Clip keeps a quotation of a caller's words to about 128 bytes. It cuts no character in two.
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
