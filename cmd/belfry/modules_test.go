package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestModules compares the modules in the program, each with the number of its packages, with testdata/modules.txt. A
// new module is one to trust and to keep up to date, and each package costs every first build and the size of the
// program. With BELFRY_REFERENCE=write the test writes the file.
func TestModules(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOPROXY=off")
	out, err := list.Output()
	assert.NoError(t, err, "%v", list)
	packages := map[string]int{}
	for module := range strings.FieldsSeq(string(out)) { // the standard library's packages have none
		packages[module]++
	}
	var got strings.Builder
	for _, module := range slices.Sorted(maps.Keys(packages)) {
		if module != "github.com/belfryhq/belfry" {
			fmt.Fprintln(&got, module, packages[module])
		}
	}
	const file = "testdata/modules.txt"
	if os.Getenv("BELFRY_REFERENCE") == "write" {
		assert.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	assert.NoError(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("modules of the program; to accept them: BELFRY_REFERENCE=write go test -run TestModules .\n%s", diff)
	}
}
