package chaos_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// command matches the command of a row of README.md: settings, tags, test, subtest, package.
var command = regexp.MustCompile(
	`\| ` + "`" + `((?:[A-Z_]+=\S+ )*)go test (-tags chaos )?-run '\^(\w+)(?:\$/\^|/)?([\w-]+)?\$' \./(\S+)` + "`" + ` \|$`)

// TestTrackRecord holds the tables of README.md to the code. Each row names a test that exists and that the gate runs.
// Each mistake that can be seeded has a row.
func TestTrackRecord(t *testing.T) {
	gate := read(t, "../.ci/run") + read(t, "../.ci/steps")
	rows := tableRows(read(t, "README.md"))
	if len(rows) < 20 {
		t.Fatalf("README.md has only %d rows", len(rows))
	}
	for _, row := range rows {
		m := command.FindStringSubmatch(row)
		if m == nil {
			t.Errorf("the row has no command that finds the bug again: %s", row)
			continue
		}
		settings, tags, test, subtest, dir := m[1], m[2], m[3], m[4], filepath.Join("..", m[5])
		if !slices.Contains(testsIn(t, dir), test) {
			t.Errorf("%s has no %s: %s", dir, test, row)
		}
		if settings+tags != "" && !strings.Contains(gate, test) { // go test ./... runs all other tests
			t.Errorf(".ci/run does not run %s: %s", test, row)
		}
		switch {
		case subtest == "":
		case settings == "":
			read(t, filepath.Join(dir, "testdata", subtest+".txt"))
		case !strings.HasPrefix(row, "| "+subtest+" |"):
			t.Errorf("the command is about another mistake: %s", row)
		}
	}
	for _, flaw := range seedable(t) {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, "| "+flaw+" |") }) {
			t.Errorf("the seeded mistake %s has no row", flaw)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	assert.NoError(t, err)
	return string(data)
}

// tableRows returns the rows of all tables in a Markdown text, without their head rows.
func tableRows(text string) (rows []string) {
	head := true
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case !strings.HasPrefix(line, "|"):
			head = true
		case strings.HasPrefix(line, "| ---"):
			head = false
		case !head:
			rows = append(rows, line)
		}
	}
	return rows
}

// testsIn returns the names of all functions in a folder's test files.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	assert.NoError(t, err)
	for _, path := range files {
		for _, d := range parse(t, path).Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// seedable returns the names of the mistakes that fsm/flaw defines.
func seedable(t *testing.T) (names []string) {
	t.Helper()
	ast.Inspect(parse(t, "../fsm/flaw/flaw.go"), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			for _, value := range v.Values {
				if literal, ok := value.(*ast.BasicLit); ok {
					names = append(names, strings.Trim(literal.Value, `"`))
				}
			}
		}
		return true
	})
	if len(names) < 9 {
		t.Fatalf("only the mistakes %v", names)
	}
	return names
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	assert.NoError(t, err)
	return file
}
