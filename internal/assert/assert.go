// Package assert holds the assertions that most tests make: no error, one certain error, one certain value. A failure
// names the line of the test, and prints the value that came and the value that was expected.
package assert

import (
	"errors"
	"fmt"
)

// TB is the part of testing.TB and rapid.T that an assertion needs.
type TB interface {
	Helper()
	Fatal(args ...any)
	Error(args ...any)
}

// NoError ends the test if err is not nil. If about is not empty, it is a format and its arguments, printed before the
// error.
func NoError(t TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(prefix(about) + err.Error())
	}
}

// ErrorIs fails the test, which goes on, unless errors.Is(err, want). About is as in NoError.
func ErrorIs(t TB, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Error(prefix(about) + fmt.Sprintf("got error %v, want %v", err, want))
	}
}

// Equal fails the test, which goes on, unless got == want. About is as in NoError.
func Equal[T comparable](t TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Error(prefix(about) + fmt.Sprintf("got %s, want %s", text(got), text(want)))
	}
}

func prefix(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ": "
}

// text quotes strings: their spaces and ends of lines show.
func text(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%+v", v)
}
