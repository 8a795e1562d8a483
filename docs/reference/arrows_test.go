package reference

import (
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/internal/assert"
)

const (
	root    = "../.."
	module  = "github.com/belfryhq/belfry/"
	arrowed = "arrows.txt"
)

// TestArrows compares the imports of all packages of the module with arrows.txt. The import rules of .golangci.yml say
// which imports are never allowed. This file shows the existing ones, so that a reviewer sees each new import. It has
// the imports on Linux, without tests and without the standard library.
func TestArrows(t *testing.T) {
	t.Parallel()
	got := arrows(t)
	if os.Getenv("BELFRY_REFERENCE") == "write" {
		write(t, arrowed, got)
	}
	want, err := os.ReadFile(arrowed)
	assert.NoError(t, err)
	added, gone := changed(string(want), got)
	if len(added)+len(gone) > 0 {
		t.Errorf("the imports of the packages are not those of docs/reference/%s:\n%s%s"+
			"If they are right, run make arrows, and say in the commit why each new one is needed.", arrowed,
			marked("new", added), marked("gone", gone))
	}
}

// changed returns the arrows added to the first text and the arrows gone from it.
func changed(before, after string) (added, gone []string) {
	was, is := parseArrows(before), parseArrows(after)
	return without(is, was), without(was, is)
}

func without(arrows, others []string) []string {
	return slices.DeleteFunc(slices.Clone(arrows), func(a string) bool { return slices.Contains(others, a) })
}

// parseArrows returns the arrows of a text as in "cluster/control → fsm/task", and the packages without any.
func parseArrows(text string) (all []string) {
	from := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if to, ok := strings.CutPrefix(line, "\t"); ok {
			all = append(all, from+" → "+to)
			continue
		}
		from = line
		all = append(all, from)
	}
	return all
}

func marked(mark string, arrows []string) string {
	var text strings.Builder
	for _, a := range arrows {
		fmt.Fprintf(&text, "  %s: %s\n", mark, a)
	}
	return text.String()
}

// arrows returns each package of the module, followed by its imports, one a line.
func arrows(t *testing.T) string {
	t.Helper()
	target := build.Default
	target.GOOS, target.GOARCH, target.CgoEnabled, target.BuildTags = "linux", "amd64", false, nil
	var text strings.Builder
	for _, dir := range folders(t) {
		p, err := target.ImportDir(filepath.Join(root, dir), 0)
		if none := new(build.NoGoError); errors.As(err, &none) {
			continue
		}
		assert.NoError(t, err)
		fmt.Fprintln(&text, filepath.ToSlash(dir))
		for _, path := range imports(p) {
			fmt.Fprintf(&text, "\t%s\n", path)
		}
	}
	return text.String()
}

// folders returns the folders of the module that may hold packages, sorted by their paths.
func folders(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		dir, err := filepath.Rel(root, path)
		if err != nil || dir == "." {
			return err
		}
		name := d.Name()
		_, missing := os.Stat(filepath.Join(path, "go.mod"))
		if missing == nil || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") {
			return fs.SkipDir
		}
		dirs = append(dirs, dir)
		return nil
	})
	assert.NoError(t, err)
	return dirs
}

// imports returns the imports of a package outside of the standard library: packages of this module by their folders,
// then other packages by their paths.
func imports(p *build.Package) []string {
	ours, others := map[string]bool{}, map[string]bool{}
	for _, path := range p.Imports {
		first, _, _ := strings.Cut(path, "/")
		if dir, ok := strings.CutPrefix(path, module); ok {
			ours[dir] = true
		} else if strings.Contains(first, ".") {
			others[path] = true
		}
	}
	return append(slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(others))...)
}

// The arrows that a change brings and removes.
func TestChangedArrows(t *testing.T) {
	t.Parallel()
	before := "cluster\n\tfsm\n\tshard\nfsm\n\twheel\nwheel\n"
	after := "cluster\n\tshard\nfsm\n\tcluster\n\twheel\nnode\n"
	added, gone := changed(before, after)
	if diff := cmp.Diff([][]string{{"fsm → cluster", "node"}, {"cluster → fsm", "wheel"}}, [][]string{added, gone}); diff != "" {
		t.Error(diff)
	}
	if added, gone := changed(before, before); len(added)+len(gone) > 0 {
		t.Error(added, gone)
	}
}
