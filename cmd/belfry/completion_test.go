package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// completed returns the words that a shell gets for a command line, and the line of the directive.
func completed(t *testing.T, args ...string) (words []string, directive string) {
	t.Helper()
	out, err := printed(t, append([]string{"__complete"}, args...)...)
	assert.NoError(t, err)
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		switch {
		case strings.HasPrefix(word, ":"):
			directive = word
		case word != "" && !strings.HasPrefix(word, "Completion ended"):
			words = append(words, word)
		}
	}
	return words, directive
}

// shelves fills a namespace of the shared node with tasks, a schedule and queues. It makes another namespace, shop.
func shelves(t *testing.T) (addr, namespace string) {
	t.Helper()
	addr, c, namespace := inNamespace(t)
	for _, task := range []client.Task{{ID: "order-1", Queue: "orders"}, {ID: "order-2", Queue: "orders"}, {ID: "other"}} {
		task.Delay = time.Hour
		_, err := c.Schedule(t.Context(), task)
		assert.NoError(t, err)
	}
	_, err := c.PutSchedule(t.Context(), client.Schedule{ID: "nightly", Repeat: client.Repeat{Every: time.Hour}})
	assert.NoError(t, err)
	_, err = c.PutNamespace(t.Context(), "shop", client.Quotas{})
	assert.NoError(t, err)
	return addr, namespace
}

// A shell completes arguments and flags with the names of a real node, which may take an hour to
// answer.
func TestLiveCompletion(t *testing.T) {
	addr, namespace := shelves(t)
	t.Setenv(cli.AddrVariable, addr)
	shards := shardNumbers(t, addr)
	for line, want := range map[string]string{
		"task get ord":                         "order-1 order-2",
		"task cancel order-1 ":                 "",
		"task get x":                           "",
		"schedule show ":                       "nightly",
		"queue get ":                           "default orders",
		"dead list o":                          "orders",
		"dead drop orders ord":                 "",
		"lease take ":                          "default orders",
		"node drain ":                          "n1",
		"namespace show sh":                    "shop",
		"namespace show " + namespace:          namespace,
		"shards split ":                        shards,
		"shards move 0-1 --to ":                shards,
		"task list --queue ":                   "default orders",
		"task list -N sh":                      "shop",
		"task get -N shop ord":                 "",
		"tail --type ":                         "cancelled dead delivered expired failed fired moved scheduled skipped",
		"task get --addr " + addr + " order-2": "order-2",
		"task get a --timeout ":                "",
		"bench --queue ":                       "",
		"completion ":                          "bash fish powershell zsh",
		"task get --addr 127.0.0.1:1 ord":      "",
		"key create ":                          "",
	} {
		args := strings.Split(line, " ")
		if want != "" && !strings.HasPrefix(line, "completion") {
			args = append([]string{"--timeout=1h"}, args...)
		}
		words, directive := completed(t, args...)
		slices.Sort(words)
		if got := strings.Join(words, " "); got != want || directive != ":4" {
			t.Errorf("%s: %q %s, want %q :4", line, got, directive, want)
		}
	}
	for _, line := range []string{"task batch ", "task get --key-file ", "calendar put a ", "verify "} {
		if words, directive := completed(t, strings.Split(line, " ")...); len(words) != 0 || directive != ":0" {
			t.Errorf("%s: %q %s, want files", line, words, directive)
		}
	}
}

// shardNumbers returns the numbers of the shards of a node, in the order of words.
func shardNumbers(t *testing.T, addr string) string {
	t.Helper()
	view, err := dial(t, addr).Cluster(t.Context())
	assert.NoError(t, err)
	var numbers []string
	for _, s := range view.Shards {
		numbers = append(numbers, fmt.Sprint(s.ID))
	}
	slices.Sort(numbers)
	return strings.Join(numbers, " ")
}

// Names that a shell would interpret are not offered, nor control characters of a description.
func TestCompletionOfHostileNames(t *testing.T) {
	s := serveOne(t, 200, `{"keys":[{"id":"$(reboot)","name":"a"},{"id":"-rf","name":"b"},{"id":"good","name":"\u001b[2Jc\td\u202e"}]}`)
	out, err := printed(t, "__complete", "key", "show", "--addr", s.url, "")
	assert.NoError(t, err)
	got, _, _ := strings.Cut(out, "\n:4")
	assert.Equal(t, got, "good\t[2Jc d", "%q", out)
}

// description is the text after a completion.
var description = regexp.MustCompile(`(?m)[\t:].*$`)

// completers are programs of shells. Each loads the script $1 and prints the completions of the command line $2, one a
// line, perhaps with a description. They stand in for the functions that a shell has for an interactive line only.
var completers = map[string][]string{
	"bash": {"--norc", "-c", `
_get_comp_words_by_ref() {
  words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
  cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
}
__ltrim_colon_completions() { :; }
compopt() { :; }
source "$1"
COMP_LINE="$2" COMP_POINT=${#2} COMP_TYPE=9
read -ra COMP_WORDS <<< "$COMP_LINE"
[[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_belfry
printf '%s\n' "${COMPREPLY[@]}"`, "bash"},
	"fish": {"--no-config", "-c", `source $argv[1]; complete --do-complete $argv[2]`},
	"zsh": {"-f", "-c", `
compdef() { :; }
_describe() { print -rl -- $completions; }
source "$1"
words=(${=2})
[[ "$2" == *" " ]] && words+=("")
CURRENT=$#words
_belfry`, "zsh"},
}

// Shells complete with the real script: a command, an id, and a queue.
func TestCompletionInShells(t *testing.T) {
	gated.Need(t, gated.Real)
	addr, _ := shelves(t)
	bin := t.TempDir()
	assert.NoError(t, os.Symlink(program(t), filepath.Join(bin, "belfry")))
	env := append(os.Environ(), cli.AddrVariable+"="+addr, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	for shell, program := range completers {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("NOT TESTED: completion in %s, which is not installed", shell)
			}
			script, code := belfry(t, "completion", shell)
			assert.MustEqual(t, code, 0, "%v", script)
			file := filepath.Join(t.TempDir(), "script")
			assert.NoError(t, os.WriteFile(file, []byte(script), 0o600))
			for line, want := range map[string]string{
				"belfry tas": "task", "belfry task get order-1": "order-1", "belfry task get oth": "other",
				"belfry queue get o": "orders", "belfry task list --queue d": "default", "belfry task get order-": "order-1 order-2",
			} {
				cmd := exec.CommandContext(t.Context(), path, slices.Concat(program, []string{file, line})...)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				words := strings.Fields(description.ReplaceAllString(string(out), ""))
				slices.Sort(words)
				if got := strings.Join(words, " "); err != nil || got != want {
					t.Errorf("%s: %v %q, want %q", line, err, out, want)
				}
			}
		})
	}
}

// Every shell's script is made. An unknown shell is refused.
func TestCompletionScripts(t *testing.T) {
	for shell := range completionScripts {
		if out, code := belfry(t, "completion", shell); code != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %d %.100s", shell, code, out)
		}
	}
	if out, code := belfry(t, "completion", "csh"); code != exitUsage || !strings.Contains(out, `"csh" is none of bash`) {
		t.Errorf("%d %s", code, out)
	}
}
