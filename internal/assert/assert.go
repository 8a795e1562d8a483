// Package assert holds the assertions that most tests make: of errors, and of one certain value. A failure names the
// line of the test, and prints the value that came and the value that was expected.
//
// The packages assert of testify and of gotest.tools were weighed. They compare values of any type: a constant has to
// be converted to the type of each counter, and the compiler finds no pair of types that never match. Each of 140 test
// programs would be 2.5 or 3.4 MB larger, of 4.4.
package assert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// TB is the part of testing.TB and rapid.T that an assertion needs.
type TB interface {
	Helper()
	Fatal(args ...any)
	Error(args ...any)
}

// NoError ends the test if err is not nil. If about is not empty, it is a format and its arguments, printed before the
// error. A test that goes on after an error states Equal(t, err, nil).
func NoError(t TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(prefix(about) + err.Error())
	}
}

// Error fails the test, which goes on, if err is nil. About is as in NoError.
func Error(t TB, err error, about ...any) {
	t.Helper()
	if err == nil {
		t.Error(prefix(about) + "got no error")
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
		t.Error(differ(got, want, about))
	}
}

// MustEqual ends the test unless got == want. About is as in NoError.
func MustEqual[T comparable](t TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Fatal(differ(got, want, about))
	}
}

func differ(got, want any, about []any) string {
	return prefix(about) + fmt.Sprintf("got %s, want %s", text(got), text(want))
}

// EqualSlices fails the test, which goes on, unless slices.Equal(got, want). About is as in NoError.
func EqualSlices[S ~[]E, E comparable](t TB, got, want S, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Error(prefix(about) + fmt.Sprintf("got %+v, want %+v", got, want))
	}
}

// Contains fails the test, which goes on, unless got contains part. About is as in NoError.
func Contains(t TB, got, part string, about ...any) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Error(prefix(about) + fmt.Sprintf("want %q in\n%s", part, got))
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
