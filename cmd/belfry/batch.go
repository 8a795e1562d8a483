package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

func newTaskBatch() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "batch [FILE]",
		Short: "Carry out many operations, a line of JSON each",
		Long: `Carry out many operations from a file or the standard input, a line of JSON
each, as POST /v1/batch takes them.

The answers are printed as they come, a line of JSON for each operation, in the
same order. The exit status is 0 if all were carried out, 1 if any was refused,
and 4 if the answer broke off: then operations without an answer may have been
carried out, and those with a "key" can be sent again.`,
		Example: `  belfry task batch tasks.ndjson
  echo '{"op": "schedule", "id": "a", "delay": "1h"}' | belfry task batch`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := input(cmd, optional(args))
			if err != nil {
				return cli.WrongUsage(err)
			}
			defer func() { _ = in.Close() }() // the file was only read
			return caller.batch(cmd, in)
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().Lookup("json").Usage = "changes nothing: the answers are lines of JSON"
	cmd.Flags().Lookup("output").Usage = "`form` of the answers: json or yaml (default json)"
	return cmd
}

// input opens a file; an empty name and - mean the standard input.
func input(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "" || name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}

// batch prints the answers, and fails if an operation was refused.
func (c *caller) batch(cmd *cobra.Command, in io.Reader) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	answered, refused, values := 0, 0, c.output.NewEncoder(cmd.OutOrStdout())
	err = conn.BatchLines(cmd.Context(), in, func(line []byte) error {
		var answer struct{ Status int }
		if err := json.Unmarshal(line, &answer); err != nil {
			return fmt.Errorf("line %d of the answer cannot be read: %w", answered+1, err)
		}
		if answered++; answer.Status < 200 || answer.Status > 299 {
			refused++
		}
		return values.Encode(json.RawMessage(line))
	})
	switch {
	case err != nil && answered > 0:
		return fmt.Errorf("%w (operations answered before: %d)", err, answered)
	case err != nil:
		return err
	case refused > 0:
		cmd.PrintErrf("%d of %d operations were refused\n", refused, answered)
		return errSaid
	case answered == 0:
		return cli.WrongUsage(errors.New("there was no operation to carry out"))
	}
	return nil
}
