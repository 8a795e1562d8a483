package docstest

import (
	"context"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// check checks that each command that cannot run exists and takes its flags.
func (s *session) check(commands string) error {
	statements, err := parseShell(commands)
	if err != nil {
		return err
	}
	for _, command := range statements {
		trial, err := harmless(command)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), blockLimit)
		out, err := s.shell(ctx, trial).CombinedOutput()
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", trial, err, out)
		}
	}
	return nil
}

// parseShell returns the commands of a block, one a line, without comments.
func parseShell(text string) ([]string, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, statement := range file.Stmts {
		var line strings.Builder
		if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&line, statement); err != nil {
			return nil, err
		}
		commands = append(commands, strings.TrimSpace(strings.ReplaceAll(line.String(), "\\\n", " ")))
	}
	return commands, nil
}

// harmless returns a command that checks another one without running it.
func harmless(command string) (string, error) {
	words := strings.Fields(command)
	verb := strings.Join(words[:min(2, len(words))], " ")
	switch {
	case words[0] == "belfry", verb == "go run":
		return command + " --help", nil // --help is read after the other flags, which must all be known
	case words[0] == "make":
		return "make -n " + strings.Join(words[1:], " "), nil
	case words[0] == "bash" && len(words) == 2:
		return "bash -n " + words[1], nil
	case verb == "go test":
		return "go list " + strings.Join(words[2:], " "), nil
	}
	return "", fmt.Errorf("no way is known to check %q without running it", command)
}
