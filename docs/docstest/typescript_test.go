package docstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/belfryhq/belfry/internal/assert"
)

const document = repository + "/httpapi/openapi.yaml"

// preamble defines Body and Answer, which select the types of an operation from the output of openapi-typescript.
const preamble = `import type { paths } from "./api";
type Body<Operation extends { requestBody?: unknown }> =
  NonNullable<Operation["requestBody"]> extends { content: { "application/json": infer B } } ? B : never;
type Content<Response, Type> = Response extends { content: infer C } ? Type extends keyof C ? C[Type] : never : never;
type Answer<Operation extends { responses: unknown }, Type> =
  { [Status in keyof Operation["responses"]]: Content<Operation["responses"][Status], Type> }[keyof Operation["responses"]];
`

// TestTypeScript checks every body and every answer of the pages against the type that openapi-typescript generates
// from openapi.yaml. It also checks that the same values with an unknown field are refused, which shows that the types
// check something.
func TestTypeScript(t *testing.T) {
	if os.Getenv("BELFRY_TYPESCRIPT") == "" {
		t.Skip("make test-typescript installs the generator and the compiler")
	}
	dir := t.TempDir()
	node(t, "node_modules/openapi-typescript/bin/cli.js", document, "--output", filepath.Join(dir, "api.ts"))
	source := typed(t, examples(t, documentation(t)))
	pages := filepath.Join(dir, "pages.ts")
	assert.NoError(t, os.WriteFile(pages, []byte(source), 0o644))
	node(t, "node_modules/typescript/bin/tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "esnext",
		"--moduleResolution", "bundler", pages)
}

func node(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "node", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", arguments[0], err, out)
	}
}

// typed returns the examples as TypeScript.
func typed(t *testing.T, all []example) string {
	t.Helper()
	router := operations(t)
	var source strings.Builder
	source.WriteString(preamble)
	bodies, answers := 0, 0
	for _, e := range all {
		request, err := e.request()
		assert.NoError(t, err, "%s", e.where)
		route, _, err := router.FindRoute(request)
		assert.NoError(t, err, "%s: %s %s", e.where, e.method, e.url)
		operation := fmt.Sprintf("paths[%q][%q]", route.Path, strings.ToLower(route.Method))
		if e.body != nil {
			bodies++
			declare(t, &source, e.where, fmt.Sprint("body", bodies), "Body<"+operation+">", e.body)
		}
		if e.answer != nil {
			answers++
			declare(t, &source, e.where, fmt.Sprint("answer", answers), fmt.Sprintf("Answer<%s, %q>", operation, mediaType(e.answer)), e.answer)
		}
	}
	if bodies < 7 || answers < 5 {
		t.Errorf("the pages have %d bodies and %d answers", bodies, answers)
	}
	return source.String()
}

func operations(t *testing.T) routers.Router {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile(document)
	assert.NoError(t, err)
	router, err := gorillamux.NewRouter(doc)
	assert.NoError(t, err)
	return router
}

// mediaType distinguishes a problem from other answers by the field type.
func mediaType(answer any) string {
	fields, _ := answer.(map[string]any)
	if kind, _ := fields["type"].(string); strings.HasPrefix(kind, "urn:belfry:problem:") {
		return "application/problem+json"
	}
	return "application/json"
}

// declare writes a value of the type, and a second value that the type must refuse.
func declare(t *testing.T, source *strings.Builder, where, name, kind string, value any) {
	t.Helper()
	fields, ok := copied(value).(map[string]any)
	if !ok {
		t.Fatalf("%s: a %T is neither body nor answer", where, value)
	}
	fmt.Fprintf(source, "// %s\nexport const %s: %s = %s;\n", where, name, kind, literal(t, value))
	fields["no_such_field"] = 1
	fmt.Fprintf(source, "export const wrong_%s: %s =\n// @ts-expect-error\n%s;\n", name, kind, literal(t, fields))
}

// literal returns the value on one line.
func literal(t *testing.T, value any) string {
	t.Helper()
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	assert.NoError(t, encoder.Encode(value))
	return strings.TrimSpace(line.String())
}
