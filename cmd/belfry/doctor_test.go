package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

const findingsJSON = `{"findings":[{"severity":"warning","code":"node-away","summary":"Node b has not answered ` +
	`for 5m, and this sentence goes on for longer than one line of the terminal is.",` +
	`"do":["belfry cluster status","belfry serve"]},` +
	`{"severity":"note","code":"queue-paused","summary":"Queue q is paused.","do":[]}]}`

func TestDoctorPrintsFindings(t *testing.T) {
	s := serveOne(t, 200, findingsJSON)
	out, code := belfry(t, "doctor", "--addr", s.url)
	const want = `WARNING node-away
  Node b has not answered for 5m, and this sentence goes on for longer than one
  line of the terminal is.
  > belfry cluster status
  > belfry serve

NOTE queue-paused
  Queue q is paused.
`
	if code != exitWarnings || out != want || s.method != "GET" || s.uri != "/v1/doctor" {
		t.Errorf("%d %s %s\n%s", code, s.method, s.uri, out)
	}
	out, code = belfry(t, "doctor", "--addr", s.url, "--json")
	var first client.Finding
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil || code != exitWarnings || first.Code != "node-away" ||
		!slices.Equal(first.Do, []string{"belfry cluster status", "belfry serve"}) {
		t.Errorf("%d %+v %v\n%s", code, first, err, out)
	}
}

func TestDoctorsExitCode(t *testing.T) {
	for answer, want := range map[string]int{
		`{"findings":[]}`: 0,
		`{"findings":[{"severity":"note","code":"x","summary":"s","do":[]}]}`: 0,
		findingsJSON: exitWarnings,
		strings.Replace(findingsJSON, "warning", "critical", 1): exitCritical,
	} {
		if out, code := belfry(t, "doctor", "--addr", serveOne(t, 200, answer).url); code != want {
			t.Errorf("exit code %d, want %d, after\n%s", code, want, out)
		}
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	for _, addr := range []string{"http://127.0.0.1:1", silent.URL} {
		out, code := belfry(t, "doctor", "--addr", addr, "--timeout", "100ms")
		assert.Equal(t, code, exitFailed, "no answer from %s:\n%s", addr, out)
	}
}

// TestDoctorOfRealNodes checks the findings of a cluster of three that loses one node and then two, and that the node
// that is left answers alone.
func TestDoctorOfRealNodes(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	cluster := localCluster(t, local.Config{})
	nodes := cluster.Nodes()
	awaitFindings(t, cluster.URLs(), 0)
	assert.NoError(t, cluster.Kill(nodes[0].Name))
	awaitFindings(t, cluster.URLs(), exitWarnings, "quorum-at-risk", "node-away")
	assert.NoError(t, cluster.Kill(nodes[1].Name))
	awaitFindings(t, cluster.URLs(), exitCritical, "quorum-lost", "node-away", "node-away")
	assert.NoError(t, cluster.Kill(nodes[2].Name))
	assert.NoError(t, cluster.Launch(nodes[2].Name))
	// The check for an old copy needs a majority.
	awaitFindings(t, cluster.URLs(), exitCritical, "node-waits", "node-away", "node-away")
	assert.NoError(t, cluster.Launch(nodes[1].Name))
	awaitFindings(t, cluster.URLs(), exitWarnings, "quorum-at-risk", "node-away")
}

// awaitFindings calls doctor until the exit code and the codes of the findings are as wanted.
func awaitFindings(t *testing.T, addrs []string, code int, want ...string) {
	t.Helper()
	awaitNil(t, func() error {
		out, got := belfry(t, "doctor", "--json", "--addr", strings.Join(addrs, ","))
		var codes []string
		for line := range strings.Lines(out) {
			var f client.Finding
			if json.Unmarshal([]byte(line), &f) == nil {
				codes = append(codes, f.Code)
			}
		}
		if got != code || !slices.Equal(codes, want) {
			return fmt.Errorf("want exit code %d and %v, found %d and\n%s", code, want, got, out)
		}
		return nil
	})
}

// TestDoctorsCommands checks that each command of a finding runs as it is printed.
func TestDoctorsCommands(t *testing.T) {
	text, err := os.ReadFile("../../cluster/doctor/testdata/commands.txt")
	assert.NoError(t, err)
	root := newRoot()
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "belfry ") {
			continue
		}
		for _, args := range commandLines(t, line) {
			found, rest, err := root.Find(args)
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil {
				err = errors.Join(found.ValidateArgs(found.Flags().Args()), found.ValidateRequiredFlags())
			}
			if err != nil || found.HasSubCommands() {
				t.Errorf("%s: %v", line, err)
				continue
			}
			if why, code := withoutCluster(t, found, args); code == exitUsage {
				t.Errorf("%s: %s", line, why)
			}
		}
	}
}

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
		assert.NoError(t, err)
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
