package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/mistakes.txt anew")

// TestMistakes checks that a mistake of a user is answered in the user's words: the flag or the argument with its value,
// the values that it takes, and the nearest right word. testdata/mistakes.txt has the command lines with their answers.
func TestMistakes(t *testing.T) {
	addr, conn, namespace := inNamespace(t)
	t.Setenv("BELFRY_ADDR", addr)
	if _, err := conn.PauseQueue(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/mistakes.txt"
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	mistakes := strings.SplitAfter(strings.TrimSuffix(string(script), "\n"), "\n\n")
	for _, mistake := range mistakes {
		line, _, _ := strings.Cut(mistake, "\n")
		args := commandLines(t, strings.ReplaceAll(strings.TrimPrefix(line, "$ "), "@", addr))[0]
		out, code := belfry(t, args...)
		answer := strings.ReplaceAll(strings.TrimSpace(out), namespace, "shop")
		got := fmt.Sprintf("%s\n%s\nexit %d\n\n", line, answer, code)
		if found.WriteString(got); strings.TrimSpace(got) != strings.TrimSpace(mistake) && !*update {
			t.Errorf("found\n%swant\n%s", got, mistake)
		}
		for _, internal := range []string{"strconv", "time:", "parsing", "arg(s)", " /v1/", "time_zone", "fire_at", "target.url"} {
			if strings.Contains(answer, internal) {
				t.Errorf("%s\nanswers %q:\n%s", line, internal, answer)
			}
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(found.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(mistakes) < 50 {
		t.Errorf("only %d mistakes", len(mistakes))
	}
}
