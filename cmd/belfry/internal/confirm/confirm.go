package confirm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// ErrRefused means that the user did not agree.
var ErrRefused = errors.New("nothing was done")

// ErrNoTerminal means that there is no terminal to ask at.
var ErrNoTerminal = errors.New("this cannot be undone: give --yes, since there is no terminal to ask at")

// Question describes a change.
type Question struct {
	Effect string // "cancels 12,431 tasks of queue orders"
	Kind   string // the kind of thing that is named, as in "queue"; empty: only yes is an agreement
	Name   string // its name, which is an agreement too
}

// String returns the question.
func (q Question) String() string {
	if q.Kind == "" {
		return fmt.Sprintf("this %s; type yes: ", q.Effect)
	}
	return fmt.Sprintf("this %s; type the name of the %s (or yes): ", q.Effect, q.Kind)
}

// agrees reports whether an answer lets the change be made.
func (q Question) agrees(answer string) bool {
	answer = strings.TrimSpace(answer)
	return strings.EqualFold(answer, "yes") || q.Kind != "" && answer != "" && answer == q.Name
}

// Ask writes a question and reads a line. It returns ErrRefused unless the line agrees, and the context's error if the
// context ends first.
func Ask(ctx context.Context, in io.Reader, out io.Writer, q Question) error {
	if _, err := io.WriteString(out, output.Text(q.String())); err != nil {
		return err
	}
	type line struct {
		text string
		err  error
	}
	answer := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(in).ReadString('\n')
		answer <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		_, _ = io.WriteString(out, "\n")
		return ctx.Err()
	case l := <-answer:
		switch {
		case q.agrees(l.text):
			return nil
		case l.err != nil && !errors.Is(l.err, io.EOF):
			return l.err
		}
		return ErrRefused
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
