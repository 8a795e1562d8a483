package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

var (
	errRefused    = errors.New("nothing was done")
	errNoTerminal = errors.New("this cannot be undone: give --yes, since there is no terminal to ask at")
)

// Question describes a change that cannot be undone. It names the counted effect, and the answer is the name of the
// thing or yes, so that no habit answers it.
type Question struct {
	Effect string // "cancels 12,431 tasks of queue orders"
	Kind   string // the kind of thing that is named, as in "queue"; empty: only yes is an agreement
	Name   string // its name, which is an agreement too
}

// Asking adds --yes to a command that asks before its change.
func Asking(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return cmd
}

// Yes reports whether the user agrees to the change without a question.
func (c *Call) Yes() bool { return c.Text("yes") == "true" }

// Ask shows a question, and returns an error unless the user agrees. With --yes it asks nothing. Without a terminal no
// user can answer: a script gives --yes.
func (c *Call) Ask(question func() (Question, error)) error {
	if c.Yes() {
		return nil
	}
	if !IsTerminal(c.In()) {
		return WrongUsage(errNoTerminal)
	}
	q, err := question()
	if err != nil {
		return err
	}
	return q.Ask(c.Context(), c.In(), c.Stderr())
}

// AskAbout asks about the thing of the cluster that the first argument names.
func AskAbout[T any](c *Call, get func(context.Context, string) (*T, error), question func(*T) Question) error {
	return c.Ask(func() (Question, error) {
		thing, err := get(c.Context(), c.Args[0])
		if err != nil {
			return Question{}, err
		}
		return question(thing), nil
	})
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

// Ask writes the question and reads a line. It returns an error unless the line agrees, and the context's error if the
// context ends first.
func (q Question) Ask(ctx context.Context, in io.Reader, out io.Writer) error {
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
		return errRefused
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
