package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// waiting follows an operation to its end, if the caller wants to.
type waiting struct {
	wait  bool
	pause time.Duration // between two looks; 0: betweenLooks
}

func (w *waiting) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.wait, "wait", "w", false, "show the progress until the end; the exit code is 0 if it is done")
}

// betweenLooks is the pause between two looks at an operation.
const betweenLooks = time.Second

// follow prints an operation, and with --wait its progress to the end. An operation that was stopped is an error.
func (w *waiting) follow(cmd *cobra.Command, conn *client.Client, c *caller, op *client.Operation) error {
	return w.followTo(cmd, conn, c, op, client.OperationDone)
}

// followStop is follow for an operation that is being stopped.
func (w *waiting) followStop(cmd *cobra.Command, conn *client.Client, c *caller, op *client.Operation) error {
	return w.followTo(cmd, conn, c, op, client.OperationStopped)
}

// followTo follows an operation until it has ended. An end in another state than the wanted one is no error if the
// operation is done.
func (w *waiting) followTo(
	cmd *cobra.Command, conn *client.Client, c *caller, op *client.Operation, wanted client.OperationState,
) error {
	if !w.wait {
		return c.show(cmd, op, func(t *cli.Table) {
			fillOperation(t, op)
			if op.State == client.OperationRunning {
				t.Row("\nIt goes on by itself: belfry operation show %s --wait", op.ID)
			}
		})
	}
	out := newProgress(cmd.OutOrStdout(), c.json)
	for {
		if err := out.show(op); err != nil {
			return err
		}
		switch op.State {
		case client.OperationDone, wanted:
			return nil
		case client.OperationStopped:
			return fmt.Errorf("%s was stopped: %s", op.ID, op.Detail)
		}
		next, err := lookAgain(cmd.Context(), conn, op.ID, cmp.Or(w.pause, betweenLooks))
		if err != nil {
			return fmt.Errorf("%w; it goes on by itself: belfry operation show %s --wait", err, op.ID)
		}
		op = next
	}
}

// lookAgain reads an operation after a pause. A node that has not heard of it yet is asked again.
func lookAgain(
	ctx context.Context, conn *client.Client, id string, pause time.Duration,
) (*client.Operation, error) {
	for tries := 5; ; tries-- {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		op, err := conn.Operation(ctx, id)
		if !errors.Is(err, client.ErrNotFound) || tries == 0 {
			return op, err
		}
	}
}

// progress prints the states of an operation: in place on a terminal, and elsewhere a line for each change.
type progress struct {
	out   io.Writer
	json  bool
	width func() int // of the terminal; nil: there is none
	lines int        // on the terminal
	last  string
}

func newProgress(out io.Writer, asJSON bool) *progress {
	p := &progress{out: out, json: asJSON}
	if file, ok := out.(*os.File); ok && !asJSON && term.IsTerminal(int(file.Fd())) {
		p.width = func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil || width < 20 {
				return cli.HelpWidth
			}
			return width
		}
	}
	return p
}

func (p *progress) show(op *client.Operation) error {
	if p.json {
		return json.NewEncoder(p.out).Encode(op)
	}
	lines := progressLines(op)
	if p.width != nil {
		return p.redraw(lines)
	}
	text := strings.Join(lines, "\n") + "\n"
	if text == p.last {
		return nil
	}
	p.last = text
	_, err := io.WriteString(p.out, text)
	return err
}

// redraw replaces the lines on the terminal. A line that is wider than the terminal is cut, since it would take two.
func (p *progress) redraw(lines []string) error {
	var text strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\r\x1b[J", p.lines)
	}
	for _, line := range lines {
		if runes := []rune(line); len(runes) >= p.width() {
			line = string(runes[:p.width()-2]) + "…"
		}
		text.WriteString(line + "\n")
	}
	p.lines = len(lines)
	_, err := io.WriteString(p.out, text.String())
	return err
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

var errRefused = errors.New("nothing was done")

// confirm asks a question, and returns errRefused unless the answer is yes.
func confirm(in io.Reader, out io.Writer, question string) error {
	if _, err := io.WriteString(out, question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errRefused
}
