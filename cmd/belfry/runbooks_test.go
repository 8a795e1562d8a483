package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandOnPage finds the commands on a page, in blocks and within sentences.
var commandOnPage = regexp.MustCompile("(?m)^(belfry .*)$|`(belfry [^`]*)`")

// Each command in a runbook exists and takes the arguments and flags on the page.
func TestRunbooksNameCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d runbooks, %v", len(pages), err)
	}
	commands, root := 0, newRoot()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range commandOnPage.FindAllStringSubmatch(string(text), -1) {
			line := strings.Join(strings.Fields(match[1]+match[2]), " ")
			commands++
			for _, args := range commandLines(t, line) {
				found, rest, err := root.Find(args)
				if err == nil {
					err = found.ParseFlags(rest)
				}
				if err != nil || found.HasSubCommands() {
					t.Errorf("%s: no command %s: %v", filepath.Base(page), line, err)
					continue
				}
				if why, code := withoutCluster(t, found, args); code == exitUsage {
					t.Errorf("%s: %s: %s", filepath.Base(page), line, why)
				}
			}
		}
	}
	if commands < 50 {
		t.Errorf("%d commands found", commands)
	}
}

// examples are values for the names of numbers on the pages.
var examples = map[string]string{"N": "3", "SHARD": "2"}

// withoutCluster runs a command that calls a cluster, at an address without one. It does not run other commands.
func withoutCluster(t *testing.T, cmd *cobra.Command, args []string) (out string, code int) {
	t.Helper()
	if cmd.Flags().Lookup("addr") == nil || cmd.Flags().Lookup("timeout") == nil {
		return "", 0
	}
	for i, arg := range args {
		if value := examples[arg]; value != "" {
			args[i] = value
		}
	}
	args = append(args, "--addr", "127.0.0.1:1", "--timeout", "1ms")
	if cmd.Flags().Lookup("yes") != nil {
		args = append(args, "--yes")
	}
	return belfry(t, args...)
}
