package assert

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// log is a test that notes its failures.
type log struct{ failed, ended string }

func (l *log) Helper()           {}
func (l *log) Error(args ...any) { l.failed += fmt.Sprint(args...) }
func (l *log) Fatal(args ...any) { l.ended += fmt.Sprint(args...) }

func TestAssertions(t *testing.T) {
	for name, c := range map[string]struct {
		assert func(TB)
		want   log
	}{
		"no error":              {func(t TB) { NoError(t, nil, "reading") }, log{}},
		"an error":              {func(t TB) { NoError(t, io.EOF) }, log{ended: "EOF"}},
		"an explained error":    {func(t TB) { NoError(t, io.EOF, "read %d", 2) }, log{ended: "read 2: EOF"}},
		"the wanted error":      {func(t TB) { ErrorIs(t, fmt.Errorf("x: %w", io.EOF), io.EOF) }, log{}},
		"another error":         {func(t TB) { ErrorIs(t, io.EOF, errors.New("x")) }, log{failed: "got error EOF, want x"}},
		"no error, want one":    {func(t TB) { ErrorIs(t, nil, io.EOF, "x") }, log{failed: "x: got error <nil>, want EOF"}},
		"any error":             {func(t TB) { Error(t, io.EOF, "x") }, log{}},
		"no error, want any":    {func(t TB) { Error(t, nil, "opened") }, log{failed: "opened: got no error"}},
		"no error, goes on":     {func(t TB) { Equal(t, io.EOF, nil) }, log{failed: "got EOF, want <nil>"}},
		"equal slices":          {func(t TB) { EqualSlices(t, []int{1}, []int{1}) }, log{}},
		"a longer slice":        {func(t TB) { EqualSlices(t, []int{1, 2}, []int{1}) }, log{failed: "got [1 2], want [1]"}},
		"a part":                {func(t TB) { Contains(t, "abc", "b") }, log{}},
		"no part":               {func(t TB) { Contains(t, "abc", "d") }, log{failed: "want \"d\" in\nabc"}},
		"equal values":          {func(t TB) { Equal(t, uint8(3), 3, "tasks") }, log{}},
		"different values":      {func(t TB) { Equal(t, 2, 3, "%s", "tasks") }, log{failed: "tasks: got 2, want 3"}},
		"equality that must be": {func(t TB) { MustEqual(t, 2, 3, "tasks") }, log{ended: "tasks: got 2, want 3"}},
		"different strings":     {func(t TB) { Equal(t, "a ", "a") }, log{failed: `got "a ", want "a"`}},
		"a string of JSON":      {func(t TB) { Equal(t, any("a"), "b") }, log{failed: `got "a", want "b"`}},
		"a number of JSON":      {func(t TB) { Equal(t, any(1.0), 1.0) }, log{}},
		"numbers of two types":  {func(t TB) { Equal[any](t, 1.0, 1) }, log{failed: "got 1, want 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got log
			if c.assert(&got); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLog(t *testing.T) {
	var l Log
	go func() {
		_, err := fmt.Fprintln(&l, "a line")
		Equal(t, err, nil)
	}()
	l.Await("a line\n")
	Equal(t, l.String(), "a line\n")
	Equal(t, l.Take("line"), 1)
	Equal(t, l.Take("line"), 0)
}
