package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// namedTest matches the name of a test on a page, with its package's folder: `httpapi.TestForeignCalls`.
var namedTest = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestNamedTestsExist checks that the tests which the pages name are there.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range readPages(t, "SECURITY.md", "docs/*.md", "docs/guides/*.md", "docs/reference/*.md") {
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
