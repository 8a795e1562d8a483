package docstest

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

const wordsAMinute = 230

// minutes matches a line of the table in docs/index.md: a page, and the minutes that it takes.
var minutes = regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(([a-z/-]+\.md)\).* \| (\d+) \|$`)

// targets matches the targets of links, which are not read.
var targets = regexp.MustCompile(`\]\([^)]*\)`)

// TestPagesReadInAnHour counts the words of the pages that docs/index.md leads through, commands included. Together they
// take less than an hour, and none takes longer than the table says.
func TestPagesReadInAnHour(t *testing.T) {
	t.Parallel()
	front, err := os.ReadFile(filepath.Join(repository, "docs", "index.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := minutes.FindAllSubmatch(front, -1)
	if len(lines) < 5 {
		t.Fatalf("docs/index.md leads to %d pages", len(lines))
	}
	sum := 0
	for _, line := range lines {
		name := path.Join("docs", string(line[1]))
		source, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		words := len(bytes.Fields(targets.ReplaceAll(source, []byte("]"))))
		sum += words
		if allowed, err := strconv.Atoi(string(line[2])); err != nil || words > (allowed+1)*wordsAMinute {
			t.Errorf("%s has %d words, too many for %s minutes", name, words, line[2])
		}
	}
	t.Logf("%d words in %d pages", sum, len(lines))
	if sum > 60*wordsAMinute {
		t.Errorf("the pages have %d words: more than an hour", sum)
	}
}
