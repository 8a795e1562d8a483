package docstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSession runs small pages that need no cluster. Some are correct; the session must find the mistakes of the
// others.
func TestSession(t *testing.T) {
	t.Parallel()
	const answer = "```sh\necho '{\"id\": \"a\", \"receipt\": \"r-1\"}'\n```\n\n"
	const loop = "```sh background=loop\necho begun; while :; do sleep 1; done\n```\n\n"
	const writer = "```sh background=writer\necho > file; echo written; while :; do sleep 1; done\n```\n\n" +
		"```output of=writer\nwritten\n```"
	for page, wrong := range map[string]string{
		answer + "```json\n{\"id\": \"a\", \"receipt\": \"r-2\"}\n```":                  "",
		answer + "```json\n{\"id\": \"b\", \"receipt\": \"r-1\"}\n```":                  "the answer was",
		answer + "```sh\necho got <receipt>\n```\n\n```output\ngot r-1\n```":            "",
		answer + "```sh\necho got <outcome>\n```":                                       "no answer before had <outcome>",
		answer + "```json\n{\n```":                                                      "this is no JSON",
		"```sh\nfalse\ntrue\n```":                                                       "exit status 1",
		"```sh\necho one\n```\n\n```output\ntwo\n```":                                   "do not stand together",
		"```sh\necho one 1\n```\n\n```output shape\none 2\n```":                         "",
		"```go\npackage main\n```\n\n```output\nrun main.go\n```":                       "",
		"```go\npackage main\n```\n\n```output\nrun other.go\n```":                      "do not stand together",
		"```python\nprint(1)\n```\n\n```output\nmain.py\n```":                           "",
		"```ts\nlet a = 1\n```\n\n```output\nmain.mjs\n```":                             "",
		"```java\nclass A {}\n```\n\n```output\nMain.java\n```":                         "",
		"```go\npackage main\n```\n\n```ts\nlet a = 1\n```\n\n```output\nmain.mjs\n```": "which was\nrun main.go",
		"```ts background=a\nlet a = 1\n```\n\n```output of=a\nmain.py\n```":            "ended before it printed",
		"```sh\nexport A=b\n```\n\n```sh\necho got $A\n```\n\n```output\ngot b\n```":    "",
		"```console\n$ echo one\none\n$ echo two\ntwo\n```":                             "",
		"```console\n$ echo one\none\n$ echo two\nthree\n```":                           "echo two prints",
		loop + "```output of=loop\nbegun\n```":                                          "",
		"```sh background=short\nexit 3\n```\n\n```output of=short\nbegun\n```":         "ended before it printed",
		"```sh untested: it is long\ngo run ./cmd --for 10m # ten\nmake x\n```":         "",
		"```sh untested: it is long\nrm -rf /\n```":                                     "no way is known",
		"```sh untested: it is long\nbash there-is-no-such-file\n```":                   "there-is-no-such-file",
		refusal("404") + "```json\n{\"status\": 404}\n```":                              "",
		refusal("404") + "```sh\ntrue\n```":                                             "was answered 404",
		refusal("404"):                                                                  "was answered 404",
		refusal("201"):                                                                  "",

		"```sh with=writer\ncat file\n```\n\n" + writer: "",
	} {
		s := &session{t: t, folder: t.TempDir(), running: map[string]*background{}, fields: map[string]string{}}
		s.env = []string{"PATH=" + s.folder + ":" + os.Getenv("PATH")}
		for _, program := range []string{"go", "make", "python3", "node", "java"} {
			if err := os.WriteFile(filepath.Join(s.folder, program), []byte("#!/bin/sh\necho \"${1##*/}\" \"${2##*/}\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := s.playAll(parsePage("p.md", []byte(page)))
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s\n%v, want %q", page, err, wrong)
		}
	}
}

// refusal returns a block that prints a status, as curl would.
func refusal(status string) string {
	return "```sh\necho '{\"status\": " + status + "}'; echo '" + answered + status + "' >&2\n```\n\n"
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"belfry serve --data x":               "belfry serve --data x --help",
		"go run ./chaos/cmd/siege --for 10m":  "go run ./chaos/cmd/siege --for 10m --help",
		"make chaos-root":                     "make -n chaos-root",
		"bash .ci/run":                        "bash -n .ci/run",
		"go test ./...":                       "go list ./...",
		"belfry serve \\\n  --data x # where": "belfry serve --data x --help",
	} {
		parsed, err := parseShell(command)
		if err != nil || len(parsed) != 1 {
			t.Fatalf("%s: %q, %v", command, parsed, err)
		}
		if got, err := harmless(parsed[0]); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", command, got, err, want)
		}
	}
}
