package docstest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestPages runs every block of every page, as doc.go describes.
func TestPages(t *testing.T) {
	if os.Getenv("BELFRY_DOCS") == "" {
		t.Skip("make test-docs runs the blocks of README.md and docs/*.md")
	}
	pages := documentation(t)
	skipWhereNotPossible(t, pages)
	place := newPlace(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			if len(p.blocks) > 0 {
				runPage(t, place, p)
			}
		})
	}
}

// ports matches the ports of this machine that the pages name.
var ports = regexp.MustCompile(`(?:localhost|127\.0\.0\.1)(:\d+)`)

func skipWhereNotPossible(t *testing.T, pages []page) {
	t.Helper()
	if help, err := exec.CommandContext(t.Context(), "curl", "--help", "all").Output(); err != nil || !strings.Contains(string(help), "--json") {
		t.Skip("NOT TESTED: the blocks of README.md and docs/*.md, for there is no curl 7.82 or later")
	}
	for _, p := range pages {
		for _, b := range p.blocks {
			for _, port := range ports.FindAllStringSubmatch(b.text, -1) {
				l, err := net.Listen("tcp", "127.0.0.1"+port[1])
				if err != nil {
					t.Skipf("NOT TESTED: the blocks of README.md and docs/*.md, for %v", err)
				}
				_ = l.Close()
			}
		}
	}
}

func runPage(t *testing.T, place *place, p page) {
	runs := false
	for _, b := range p.blocks {
		k, _ := parseKind(b.info)
		if k.untested != "" {
			t.Logf("only checked: %s:%d: %s", p.name, b.line, k.untested)
		}
		runs = runs || k.untested == "" && k.language != "text" && k.language != "sql"
	}
	if runs {
		place.renew(t)
	}
	assert.Equal(t, newSession(t, place).playAll(p), nil)
}

// place is where pages run: a folder of programs, and a copy of the repository that is made anew for each page that runs
// commands.
type place struct {
	files    []string // files of the repository
	folder   string   // folder of the copy
	programs string
}

// newPlace builds belfry in the copy. The build cache then speeds up `go run ./cmd/belfry` on the pages.
func newPlace(t *testing.T) *place {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = repository
	names, err := list.Output()
	assert.NoError(t, err, "listing the repository's files")
	dir := t.TempDir()
	p := &place{folder: filepath.Join(dir, "belfry"), programs: filepath.Join(dir, "bin")}
	p.files = strings.Split(strings.TrimRight(string(names), "\x00"), "\x00")
	p.renew(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.programs+string(filepath.Separator), "./cmd/belfry")
	build.Dir = p.folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building belfry: %v\n%s", err, out)
	}
	return p
}

// renew makes the copy anew.
func (p *place) renew(t *testing.T) {
	t.Helper()
	assert.NoError(t, os.RemoveAll(p.folder))
	for _, name := range p.files {
		assert.NoError(t, copyFile(filepath.Join(repository, name), filepath.Join(p.folder, name)))
	}
}

// copyFile copies a file with its mode. It skips a file that is deleted but still in git's index.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// environment returns the environment for a page's commands. It lacks this process's settings for belfry, makes curl
// print the status of each answer, installs Go programs into the folder of programs, and lets programs import the clients
// for Python and Java.
func (p *place) environment(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	const told = "write-out = \"%{stderr}" + answered + "%{http_code}\\n\"\n"
	assert.NoError(t, os.WriteFile(filepath.Join(home, ".curlrc"), []byte(told), 0o644))
	clients, err := filepath.Abs(filepath.Join(repository, "clients"))
	assert.NoError(t, err)
	env := []string{"GOBIN=" + p.programs, "PYTHONPATH=" + filepath.Join(clients, "python"),
		"CLASSPATH=" + filepath.Join(clients, "java", "target", "classes"),
		"CURL_HOME=" + home, "BELFRY_CONTEXTS=" + filepath.Join(home, "contexts.yaml")}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case name == "PATH":
			env = append(env, fmt.Sprintf("PATH=%s%c%s", p.programs, filepath.ListSeparator, value))
		case name != "GOBIN" && name != "PYTHONPATH" && name != "CLASSPATH" && !strings.HasPrefix(name, "BELFRY_"):
			env = append(env, variable)
		}
	}
	return env
}
