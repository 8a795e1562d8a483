package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

const growingPage = "../../docs/operations/sizing.md"

// promptBlock matches a command of the page, of whose output head may show the first lines only.
var promptBlock = regexp.MustCompile("(?s)```console\n\\$ belfry (plan[^|\n]*?)( \\| head -(\\d+))?\n.*?```\n")

// TestGrowingPage runs the plans that docs/operations/sizing.md shows. With BELFRY_UPDATE=1 it writes their present output.
func TestGrowingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(growingPage)
	assert.NoError(t, err)
	lines := 0
	updated := promptBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		lines++
		parts := promptBlock.FindStringSubmatch(block)
		now, err := printed(t, strings.Fields(parts[1])...)
		if err != nil {
			t.Fatalf("belfry %s: %v", parts[1], err)
		}
		if first, err := strconv.Atoi(parts[3]); err == nil {
			now = strings.Join(slices.Collect(strings.Lines(now))[:first], "")
		}
		return "```console\n$ belfry " + parts[1] + parts[2] + "\n" + now + "```\n"
	})
	if lines < 4 {
		t.Errorf("%d plans are on the page", lines)
	}
	if updated == string(page) {
		return
	}
	if os.Getenv("BELFRY_UPDATE") == "" {
		t.Fatal("docs/operations/sizing.md shows other plans than the command prints: BELFRY_UPDATE=1 go test ./cmd/belfry -run Growing")
	}
	assert.NoError(t, os.WriteFile(growingPage, []byte(updated), 0o644))
}
