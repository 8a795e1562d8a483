package node

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// misnamed are keys that stand for another one in the logs of this repository.
var misnamed = map[string]string{
	"error": "err", "reason_err": "err", "duration": "took", "elapsed": "took", "task_id": "task", "shard_id": "shard",
	"node_id": "node", "queue_name": "queue", "ns": "namespace", "addr": "from", "remote": "from",
}

// Log records have the same keys everywhere: in lower case, with underscores, and err for an error.
func TestLogKeysAreTheSame(t *testing.T) {
	form := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	found := map[string]int{}
	check := func(place token.Position, key string) {
		found[key]++
		if !form.MatchString(key) || misnamed[key] != "" {
			t.Errorf("%s: the key %q is not in lower case with underscores, or should be %q", place, key, misnamed[key])
		}
	}
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "bench" || path != ".." && entry.Name()[0] == '.'):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, literal := range keysOf(call) {
					key, err := strconv.Unquote(literal.Value)
					assert.NoError(t, err)
					check(files.Position(literal.Pos()), key)
				}
			}
			return true
		})
		return nil
	})
	assert.NoError(t, err)
	if found["err"] < 50 || found["node"] < 10 {
		t.Errorf("few keys found: %v", found)
	}
}

// keysOf returns the literal keys of a call that writes a log record, or makes an attribute of one.
func keysOf(call *ast.CallExpr) (keys []*ast.BasicLit) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first := 1 // after the message
	if pkg, ok := method.X.(*ast.Ident); ok && pkg.Name == "slog" {
		switch method.Sel.Name {
		case "String", "Int", "Int64", "Uint64", "Bool", "Duration", "Time", "Any", "Float64":
			return literals(call.Args[:1], 0)
		}
	}
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
	case "With":
		first = 0
	default:
		return nil
	}
	if len(call.Args) == 0 || !isLogger(method.X) {
		return nil
	}
	return literals(call.Args, first)
}

// isLogger reports whether an expression names a logger, as far as its name tells.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "l" || x.Name == "log" || x.Name == "logger" || x.Name == "slog"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Logger" || x.Sel.Name == "log" || x.Sel.Name == "logger" || x.Sel.Name == "limited"
	case *ast.CallExpr:
		method, ok := x.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "With" && isLogger(method.X)
	}
	return false
}

// literals returns each second argument, from first on, that is a text.
func literals(args []ast.Expr, first int) (found []*ast.BasicLit) {
	for i := first; i < len(args); i += 2 {
		if literal, ok := args[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			found = append(found, literal)
		}
	}
	return found
}
