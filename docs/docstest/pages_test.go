package docstest

import (
	"bytes"
	"context"
	"fmt"
	"go/format"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/access/oidc"
	"github.com/belfryhq/belfry/delivery/broker"
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

// TestFilesOfSettingsLoad loads the YAML files of the pages as a node does: as the grants of certificates or of tokens, or
// as brokers.
func TestFilesOfSettingsLoad(t *testing.T) {
	t.Parallel()
	files := 0
	for _, p := range documentation(t) {
		for _, b := range p.blocks {
			if b.info != "yaml" {
				continue
			}
			files++
			file := filepath.Join(t.TempDir(), "settings.yaml")
			assert.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
			_, err := access.LoadCertificateRoles(file)
			_, tokensErr := oidc.LoadRoles(file)
			if _, brokersErr := broker.LoadKnown(file); err != nil && tokensErr != nil && brokersErr != nil {
				t.Errorf("%s:%d: of certificates: %v; of tokens: %v; brokers: %v", p.name, b.line, err, tokensErr, brokersErr)
			}
		}
	}
	assert.Equal(t, files, 3, "files found")
}

// TestProgramsCompile vets the Go programs of the pages and checks their formatting.
func TestProgramsCompile(t *testing.T) {
	t.Parallel()
	programs := 0
	for _, p := range documentation(t) {
		for _, b := range p.blocks {
			if word, _, _ := strings.Cut(b.info, " "); word != "go" {
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

// badge matches the name and the value of a badge of README.md.
var badge = regexp.MustCompile(`!\[([A-Za-z]+): ([^\]]+)\]\((docs/pictures/[a-z]+\.svg)\)`)

// TestBadgesAreTrue compares the badges of README.md with their pictures, and with the files that they sum up.
func TestBadgesAreTrue(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(repository, name))
		assert.NoError(t, err)
		return string(text)
	}
	sources := map[string]struct {
		file string
		fact *regexp.Regexp // its groups make the value
	}{
		"Licence": {"LICENSE", regexp.MustCompile(`^\s*(Apache) License\s+Version (2\.0),`)},
		"Go":      {"go.mod", regexp.MustCompile(`(?m)^go (\d+\.\d+)`)},
		"Release": {"CHANGELOG.md", regexp.MustCompile(`(?m)^## .*\((not yet) released\)$`)},
	}
	for _, match := range badge.FindAllStringSubmatch(read("README.md"), -1) {
		name, value, picture := match[1], match[2], match[3]
		source, ok := sources[name]
		if !ok {
			t.Errorf("no file is known for the badge %s", name)
			continue
		}
		delete(sources, name)
		if want := `aria-label="` + name + ": " + value + `"`; !strings.Contains(read(picture), want) {
			t.Errorf("%s lacks %s", picture, want)
		}
		fact := source.fact.FindStringSubmatch(read(source.file))
		if fact == nil || strings.Join(fact[1:], "-") != value {
			t.Errorf("%s: %s, while %s says %q", name, value, source.file, fact)
		}
	}
	for name := range sources {
		t.Errorf("README.md lacks the badge %s", name)
	}
}

// namedTest matches the name of a test on a page, with its package's folder: `httpapi.TestForeignCalls`.
var namedTest = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestNamedTestsExist checks that the tests which the pages name are there.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	found := 0
	pages := readPages(t, "SECURITY.md", "docs/*.md", "docs/guides/*.md", "docs/moving/*.md", "docs/reference/*.md")
	for _, p := range pages {
		source, err := os.ReadFile(filepath.Join(repository, p.name))
		assert.NoError(t, err)
		for _, match := range namedTest.FindAllStringSubmatch(string(source), -1) {
			found++
			assert.Equal(t, declared(match[1], match[2]), nil, "%s", p.name)
		}
	}
	if found < 20 {
		t.Errorf("the pages name %d tests", found)
	}
	if declared("docs/docstest", "TestNoSuchName") == nil || declared("nowhere", "TestNamedTestsExist") == nil {
		t.Error("a test that is not there is found")
	}
}

// declared returns an error unless a test file in a folder has a function of this name.
func declared(folder, name string) error {
	files, err := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(source), "\nfunc "+name+"(") {
			return nil
		}
	}
	return fmt.Errorf("%s has no %s", folder, name)
}

const (
	firstPages = 10    // in docs/ itself, the first level of the site
	pageWords  = 2500  // of one of them
	allWords   = 25000 // of all of them

	readmeLines = 190 // of which the programs in four languages take 60
)

// targets matches the targets of links, which are not read.
var targets = regexp.MustCompile(`\]\([^)]*\)`)

// TestFirstLevelIsShort counts the words of the pages in docs/ itself, commands included. All other pages are in
// folders: guides, moving, operations, runbooks, reference, measurements.
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

// check checks that each command that cannot run exists and takes its flags.
func (s *session) check(commands string) error {
	statements, err := parseShell(commands)
	if err != nil {
		return err
	}
	for _, command := range statements {
		trial, err := harmless(command)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), blockLimit)
		out, err := s.shell(ctx, trial).CombinedOutput()
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", trial, err, out)
		}
	}
	return nil
}

// parseShell returns the commands of a block, one a line, without comments.
func parseShell(text string) ([]string, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, statement := range file.Stmts {
		var line strings.Builder
		if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&line, statement); err != nil {
			return nil, err
		}
		commands = append(commands, strings.TrimSpace(strings.ReplaceAll(line.String(), "\\\n", " ")))
	}
	return commands, nil
}

// harmless returns a command that checks another one without running it.
func harmless(command string) (string, error) {
	words := strings.Fields(command)
	verb := strings.Join(words[:min(2, len(words))], " ")
	switch {
	case words[0] == "belfry", verb == "go run":
		return command + " --help", nil // --help is read after the other flags, which must all be known
	case words[0] == "make":
		return "make -n " + strings.Join(words[1:], " "), nil
	case words[0] == "bash" && len(words) == 2:
		return "bash -n " + words[1], nil
	case verb == "go test":
		return "go list " + strings.Join(words[2:], " "), nil
	}
	return "", fmt.Errorf("no way is known to check %q without running it", command)
}
