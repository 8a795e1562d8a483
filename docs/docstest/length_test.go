package docstest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

const (
	firstPages = 10    // in docs/ itself, the first level of the site
	pageWords  = 2500  // of one of them
	allWords   = 25000 // of all of them

	readmeLines = 120
)

// targets matches the targets of links, which are not read.
var targets = regexp.MustCompile(`\]\([^)]*\)`)

// TestFirstLevelIsShort counts the words of the pages in docs/ itself, commands included. All other pages are in
// folders: guides, operations, runbooks, reference, measurements.
func TestFirstLevelIsShort(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	assert.NoError(t, err)
	assert.Equal(t, len(pages), firstPages, "pages in docs/")
	sum := 0
	for _, name := range pages {
		source, err := os.ReadFile(name)
		assert.NoError(t, err)
		words := len(bytes.Fields(targets.ReplaceAll(source, []byte("]"))))
		sum += words
		if words >= pageWords {
			t.Errorf("%s has %d words, want fewer than %d", filepath.Base(name), words, pageWords)
		}
	}
	t.Logf("%d words in %d pages", sum, len(pages))
	if sum > allWords {
		t.Errorf("the pages have %d words, want at most %d", sum, allWords)
	}
}

// TestReadmeIsShort counts the lines of README.md.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(repository, "README.md"))
	assert.NoError(t, err)
	if lines := bytes.Count(source, []byte("\n")); lines > readmeLines {
		t.Errorf("README.md has %d lines, want at most %d", lines, readmeLines)
	}
}
