package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const growingPage = "../../docs/operations/sizing.md"

// promptBlock matches a command of the page with its output.
var promptBlock = regexp.MustCompile("(?s)```console\n\\$ belfry (plan[^\n]*)\n(.*?)```\n")

// TestGrowingPage runs the plans that docs/operations/sizing.md shows. With BELFRY_UPDATE=1 it writes their present output.
func TestGrowingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(growingPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	updated := promptBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		shown++
		command := promptBlock.FindStringSubmatch(block)[1]
		now, err := printed(t, strings.Fields(command)...)
		if err != nil {
			t.Fatalf("belfry %s: %v", command, err)
		}
		return "```console\n$ belfry " + command + "\n" + now + "```\n"
	})
	if shown < 4 {
		t.Errorf("%d plans are on the page", shown)
	}
	if updated == string(page) {
		return
	}
	if os.Getenv("BELFRY_UPDATE") == "" {
		t.Fatal("docs/operations/sizing.md shows other plans than the command prints: BELFRY_UPDATE=1 go test ./cmd/belfry -run Growing")
	}
	if err := os.WriteFile(growingPage, []byte(updated), 0o644); err != nil {
		t.Fatal(err)
	}
}
