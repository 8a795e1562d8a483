package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatCannotBeDone(t *testing.T) {
	for want, args := range map[string][]string{
		"one of For, Rounds and Round": {"--binary", "/bin/false"},
		`no faults "weather"`:          {"--binary", "/bin/false", "--rounds", "1", "--faults", "weather"},
		"unknown flag":                 {"--storm"},
		"unknown command":              {"now"},
		"died before it was ready":     {"--binary", "/bin/false", "--rounds", "1", "--faults", "none"},
	} {
		cmd := command()
		cmd.SetArgs(append(args, "--dir", filepath.Join(t.TempDir(), "siege")))
		cmd.SetOut(io.Discard)
		cmd.SetContext(t.Context())
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, errBroken) {
			t.Errorf("%v: %v, not %q", args, err, want)
		}
	}
}
