package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/manual"
	"github.com/belfryhq/belfry/internal/assert"
)

const referencePage = "../../docs/reference/command-line.md"

// The reference page has the present commands.
func TestReferenceIsUpToDate(t *testing.T) {
	out, code := belfry(t, "man", "--markdown")
	page, err := os.ReadFile(referencePage)
	if code != 0 || err != nil {
		t.Fatal(code, err)
	}
	assert.Equal(t, out, string(page), "%s is not that of the commands: run `make reference`", referencePage)
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		if heading := " " + cmd.CommandPath() + "\n"; strings.Contains(out, "#"+heading) == cmd.Hidden {
			t.Errorf("hidden %v: %s", cmd.Hidden, heading)
		}
	})
}

// manuals writes the manual pages into a new folder.
func manuals(t *testing.T, epoch string) (dir string, pages map[string]string) {
	t.Helper()
	t.Setenv(epochVariable, epoch)
	dir = filepath.Join(t.TempDir(), "man1")
	out, code := belfry(t, "man", "--to", dir)
	assert.MustEqual(t, code, 0, "%v", out)
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	assert.NoError(t, err)
	pages = map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.NoError(t, err)
		pages[filepath.Base(file)] = string(text)
	}
	return dir, pages
}

// Every command has a manual page with all sections, whose cross references exist. The same date gives the same bytes.
func TestManualPages(t *testing.T) {
	_, pages := manuals(t, "1790000000")
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		file := manual.File(cmd.CommandPath())
		page, ok := pages[file]
		if ok == cmd.Hidden {
			t.Errorf("%s: hidden %v, written %v", file, cmd.Hidden, ok)
		}
		if cmd.Hidden {
			return
		}
		sections := []string{".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH EXAMPLES", ".SH SEE ALSO", `"2026\-09\-21"`}
		if cli.IsCall(cmd) && !cli.IsGroup(cmd) {
			sections = append(sections, "\n.SH ENVIRONMENT", `BELFRY_KEY\fR`, "\n.SH OPTIONS OF THE CONNECTION")
		}
		for _, section := range sections {
			assert.Contains(t, page, section, "%s", file)
		}
		for line := range strings.Lines(page[strings.Index(page, ".SH SEE ALSO"):]) {
			name, _, isPage := strings.Cut(strings.TrimPrefix(line, `\fB`), `\fR(1)`)
			if other := strings.ReplaceAll(name, `\-`, "-") + ".1"; isPage && pages[other] == "" {
				t.Errorf("%s refers to %s, which is not there", file, other)
			}
		}
	})
	_, again := manuals(t, "1790000000")
	for file, page := range pages {
		assert.Equal(t, again[file], page, "%s differs from run to run", file)
	}
	_, undated := manuals(t, "")
	first, _, _ := strings.Cut(undated["belfry.1"], "\n")
	assert.Equal(t, first, `.TH "BELFRY" "1" "" "" "Belfry"`)
}

// groff, which man runs, and mandoc find nothing wrong with the pages.
func TestManualPagesAreSound(t *testing.T) {
	dir, pages := manuals(t, "1790000000")
	checks := map[string][]string{
		"groff":  {"-mandoc", "-ww", "-K", "utf8", "-T", "utf8", "-z"},
		"mandoc": {"-T", "lint", "-W", "warning"},
	}
	ran := 0
	for program, args := range checks {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Logf("NOT EXERCISED: there is no %s here", program)
			continue
		}
		ran++
		for file := range pages {
			args = append(args, filepath.Join(dir, file))
		}
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		var output bytes.Buffer
		cmd.Stderr = &output
		if err := cmd.Run(); err != nil || output.Len() > 0 {
			t.Errorf("%s: %v\n%s", program, err, output.String())
		}
	}
	if ran == 0 {
		t.Skip("NOT EXERCISED: neither groff nor mandoc is here")
	}
}

func TestManRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"man": "give either --to or --markdown", "man --markdown --to x": "give either --to or --markdown",
	} {
		if out, code := belfry(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
	t.Setenv(epochVariable, "soon")
	out, code := belfry(t, "man", "--to", t.TempDir())
	if code != exitUsage || !strings.Contains(out, `SOURCE_DATE_EPOCH "soon" is not a number of seconds`) {
		t.Errorf("%d %s", code, out)
	}
}

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
