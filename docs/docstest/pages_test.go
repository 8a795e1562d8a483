package docstest

import (
	"go/format"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/access/oidc"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestBlocksSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	blocks := 0
	for _, p := range documentation(t) {
		blocks += len(p.blocks)
		assert.Equal(t, checkOrder(p), nil)
	}
	if blocks < 15 {
		t.Errorf("%d blocks found", blocks)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for page, wrong := range map[string]string{
		"```sh\nls\n```\n\n```output\nx\n```":                            "",
		"```sh\nls\n```\n\n```json\n{}\n```\n\n```output shape\nx\n```":  "",
		"```sh background=a\nls\n```\n\n```output of=a\nx\n```":          "",
		"```sh untested: it takes an hour\nls\n```":                      "",
		"```go\npackage main\n```\n\n```output\nx\n```":                  "",
		"```python background=a\nprint()\n```\n\n```output of=a\nx\n```": "",
		"```go run\npackage main\n```":                                   "no kind of block: run",
		"```text\n->\n```":                                               "",
		"```\nls\n```":                                                   "p.md:1: its fence names no kind",
		"words\n\n```shell\nls\n```":                                     "p.md:3: \"shell\" is no kind",
		"```sh quickly\nls\n```":                                         "quickly",
		"```sh untested:\nls\n```":                                       "gives no reason",
		"```sh untested: why\nls\n```\n\n```json\n{}\n```":               "p.md:5: no commands stand before this json",
		"```output of=a\nx\n```":                                         "no block above is named a",
		"```sh background=a\nls\n```\n\n```output\nx\n```":               "no commands stand before this output",
		"```sh background=a\nls\n```\n\n```sh background=a\nls\n```":     "there already",
		"Indented:\n\n    ls\n":                                          "\"indented\" is no kind",
		"```console\n$ ls\n```\n\n```json\n{}\n```":                      "no commands stand before",
		"```yaml\na: b\n```":                                             "",
		"* in a list\n\n  ```toml\n  a = 1\n  ```\n":                     "p.md:3: \"toml\" is no kind",

		"```sh with=a\nls\n```\n\n```json\n{}\n```\n\n```sh background=a\nls\n```": "",
		"```sh with=a\nls\n```": "p.md:1: no block below is named a",
	} {
		err := checkOrder(parsePage("p.md", []byte(page)))
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%s\n%v, want %q", page, err, wrong)
		}
	}
}

// TestFilesOfRolesLoad loads the YAML files of the pages as a node does: as the grants of certificates or of tokens.
func TestFilesOfRolesLoad(t *testing.T) {
	t.Parallel()
	files := 0
	for _, p := range documentation(t) {
		for _, b := range p.blocks {
			if b.info != "yaml" {
				continue
			}
			files++
			file := filepath.Join(t.TempDir(), "roles.yaml")
			assert.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
			_, err := access.LoadCertificateRoles(file)
			if _, tokensErr := oidc.LoadRoles(file); err != nil && tokensErr != nil {
				t.Errorf("%s:%d: of certificates: %v; of tokens: %v", p.name, b.line, err, tokensErr)
			}
		}
	}
	assert.Equal(t, files, 2, "files found")
}

// TestProgramsCompile vets the Go programs of the pages and checks their formatting.
func TestProgramsCompile(t *testing.T) {
	t.Parallel()
	programs := 0
	for _, p := range documentation(t) {
		for _, b := range p.blocks {
			if b.info != "go" {
				continue
			}
			programs++
			if formatted, err := format.Source([]byte(b.text)); err != nil || string(formatted) != b.text {
				t.Errorf("%s:%d: not as gofmt writes it, %v", p.name, b.line, err)
			}
			file, err := writeProgram(t.TempDir(), "main.go", b.text)
			assert.NoError(t, err)
			vet := exec.CommandContext(t.Context(), "go", "vet", file)
			vet.Dir = repository
			if out, err := vet.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", p.name, b.line, err, out)
			}
		}
	}
	if programs == 0 {
		t.Error("no program found")
	}
}

// TestLinks checks that each link to a page, a heading or a file has a target. It does not follow links out of the
// repository.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := map[string]page{}
	for _, p := range everyPage(t) {
		pages[p.name] = p
	}
	links := 0
	for _, p := range pages {
		for _, link := range p.links {
			to, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
				continue
			}
			if to.Scheme != "" {
				continue
			}
			links++
			target := p.name
			if to.Path != "" {
				target = path.Join(path.Dir(p.name), to.Path)
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which is not there", p.name, link)
			}
			if to.Fragment != "" && !pages[target].headings[to.Fragment] {
				t.Errorf("%s links to %s, where there is no such heading", p.name, link)
			}
		}
	}
	if links < 20 {
		t.Errorf("%d links found", links)
	}
}

// TestTranslationsHaveTheSameBlocks compares the blocks of each Chinese page with the blocks of the English
// page, and TestPages runs these.
func TestTranslationsHaveTheSameBlocks(t *testing.T) {
	t.Parallel()
	chinese := translations(t)
	for _, p := range readPages(t, "README.md", "docs/*.md") {
		translated, ok := chinese[p.name]
		if !ok {
			continue
		}
		delete(chinese, p.name)
		for i := range max(len(p.blocks), len(translated.blocks)) {
			switch {
			case i >= len(translated.blocks):
				t.Errorf("%s lacks the block of %s:%d", translated.name, p.name, p.blocks[i].line)
			case i >= len(p.blocks):
				t.Errorf("%s:%d: %s has no such block", translated.name, translated.blocks[i].line, p.name)
			case p.blocks[i].info != translated.blocks[i].info || p.blocks[i].text != translated.blocks[i].text:
				t.Errorf("%s:%d: the block differs from %s:%d", translated.name, translated.blocks[i].line, p.name, p.blocks[i].line)
			}
		}
	}
	for name, p := range chinese {
		t.Errorf("%s is the translation of %s, which is not there", p.name, name)
	}
	if len(translations(t)) < 4 {
		t.Errorf("%d pages are translated", len(translations(t)))
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Run it":               "run-it",
		"Ten, and fifty":       "ten-and-fifty",
		"What `belfry` is_not": "what-belfry-is_not",
	} {
		assert.Equal(t, anchor(heading), want, "%s", heading)
	}
}
