package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// codes returns the values of the constants of type Code, in the order of the source.
func codes(t *testing.T) []Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "finding.go", nil, 0)
	assert.NoError(t, err)
	var all []Code
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Type != nil {
			if of, ok := v.Type.(*ast.Ident); ok && of.Name == "Code" {
				code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				assert.NoError(t, err)
				all = append(all, code)
			}
		}
		return true
	})
	return all
}

// sections returns the sections of docs/reference/doctor.md about codes, and the codes in their order.
func sections(t *testing.T) (map[Code]string, []Code) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/doctor.md")
	assert.NoError(t, err)
	heading := regexp.MustCompile("^### `([a-z-]+)`\n")
	found, order := make(map[Code]string), []Code(nil)
	for _, part := range regexp.MustCompile(`(?m)^(#+ )`).Split(strings.ReplaceAll(string(page), "\n### `", "\n# ### `"), -1) {
		if match := heading.FindStringSubmatch(part); match != nil {
			found[match[1]] = part
			order = append(order, match[1])
		}
	}
	return found, order
}

// TestCodesAreDocumented checks that docs/reference/doctor.md has a section for each code, in the order of the source,
// and for nothing else.
func TestCodesAreDocumented(t *testing.T) {
	known := codes(t)
	if len(known) < 25 {
		t.Fatalf("only %v", known)
	}
	if _, documented := sections(t); !slices.Equal(known, documented) {
		t.Errorf("codes\n%v\ndocumented\n%v", known, documented)
	}
}

// TestEachCodeIsFound checks that the table of findings has every code, and that the section of each code has the
// commands of its findings, without their arguments.
func TestEachCodeIsFound(t *testing.T) {
	documented, _ := sections(t)
	verbs := regexp.MustCompile(`^belfry [a-z]+( [a-z]+)?`)
	found := make(map[Code]bool)
	for name, c := range situations {
		s := healthy()
		c.change(s)
		for _, f := range Examine(s) {
			found[f.Code] = true
			for _, command := range f.Do {
				if verb := verbs.FindString(command); !strings.Contains(documented[f.Code], verb) {
					t.Errorf("%s: docs/reference/doctor.md does not have `%s` at %s", name, verb, f.Code)
				}
			}
		}
	}
	for _, code := range codes(t) {
		if !found[code] {
			t.Errorf("no test finds %s", code)
		}
	}
}
