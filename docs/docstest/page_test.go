package docstest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/belfryhq/belfry/internal/assert"
)

const repository = "../.."

// page is one Markdown file of the repository.
type page struct {
	name     string // path in the repository
	blocks   []block
	links    []string
	headings map[string]bool // anchors in GitHub's form
}

// block is a fenced block of a page.
type block struct {
	line int // of the opening fence
	info string
	text string
}

// documentation returns the pages whose blocks are run, README.md first. The reference of the command line repeats the
// examples of the help texts, which package cmd/belfry tests.
func documentation(t *testing.T) []page {
	t.Helper()
	pages := readPages(t, "README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/*.md", "docs/guides/*.md",
		"docs/moving/*.md", "docs/clients/*.md", "docs/operations/*.md", "docs/measurements/*.md", "docs/reference/*.md",
		"docs/reference/api/*.md")
	return slices.DeleteFunc(pages, func(p page) bool { return p.name == "docs/reference/command-line.md" })
}

// translations returns the Chinese pages by the names of the English ones.
func translations(t *testing.T) map[string]page {
	t.Helper()
	pages := map[string]page{}
	for _, p := range readPages(t, "README.zh.md", "docs/zh/*.md") {
		english := strings.Replace(p.name, "docs/zh/", "docs/", 1)
		pages[strings.Replace(english, ".zh.md", ".md", 1)] = p
	}
	return pages
}

// everyPage returns the pages of the repository, of docs/ at any depth.
func everyPage(t *testing.T) []page {
	t.Helper()
	patterns := []string{"*.md", "bench/*.md", "bench/*/*.md", "deploy/*/*.md", "clients/*/*.md"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == "node_modules":
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			name, err := filepath.Rel(repository, path)
			patterns = append(patterns, name)
			return err
		}
		return nil
	})
	assert.NoError(t, err)
	return readPages(t, patterns...)
}

// readPages reads the pages that match the patterns, in their order.
func readPages(t *testing.T, patterns ...string) []page {
	t.Helper()
	var pages []page
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(repository, pattern))
		assert.NoError(t, err)
		for _, path := range paths {
			source, err := os.ReadFile(path)
			assert.NoError(t, err)
			name, err := filepath.Rel(repository, path)
			assert.NoError(t, err)
			pages = append(pages, parsePage(filepath.ToSlash(name), source))
		}
	}
	return pages
}

// parsePage finds the blocks, links and headings of a page.
func parsePage(name string, source []byte) page {
	p := page{name: name, headings: map[string]bool{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.FencedCodeBlock:
			p.blocks = append(p.blocks, fenced(node, source))
		case *ast.CodeBlock:
			p.blocks = append(p.blocks, block{lineOf(source, node.Lines().At(0).Start), "indented", ""})
		case *ast.Link:
			p.links = append(p.links, string(node.Destination))
		case *ast.Image:
			p.links = append(p.links, string(node.Destination))
		case *ast.Heading:
			p.headings[anchor(string(node.Lines().Value(source)))] = true
		}
		return ast.WalkContinue, nil
	})
	return p
}

func fenced(node *ast.FencedCodeBlock, source []byte) block {
	b := block{text: string(node.Lines().Value(source))}
	if node.Lines().Len() > 0 {
		b.line = lineOf(source, node.Lines().At(0).Start) - 1
	}
	if node.Info != nil {
		b.info = string(node.Info.Segment.Value(source))
	}
	return b
}

func lineOf(source []byte, offset int) int { return bytes.Count(source[:offset], []byte("\n")) + 1 }

// dropped matches the characters of a heading that GitHub leaves out of its anchor.
var dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func anchor(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
