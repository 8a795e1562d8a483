package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

const contract = "../../httpapi/openapi.yaml"

// TestAPI compares the pages of the API with those that the document makes. With BELFRY_REFERENCE=write it writes them.
func TestAPI(t *testing.T) {
	t.Parallel()
	root, err := load(contract)
	assert.NoError(t, err)
	d := document{root: root}
	for _, tag := range root.list("tags") {
		d.tags = append(d.tags, tag.(object).text("name"))
	}
	pages := d.pages()
	for name, want := range pages {
		if os.Getenv("BELFRY_REFERENCE") == "write" {
			write(t, name, want)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want {
			t.Errorf("docs/reference/%s is not made from openapi.yaml as it is: run make reference (%v)", name, err)
		}
	}
	stale, err := filepath.Glob("api/*.md")
	assert.NoError(t, err)
	for _, name := range stale {
		if pages[filepath.ToSlash(name)] == "" {
			t.Errorf("docs/reference/%s belongs to no tag of openapi.yaml", name)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	assert.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	assert.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}

// Each call and each schema of the document is on the pages, and each heading is there once.
func TestAPIIsWhole(t *testing.T) {
	t.Parallel()
	root, err := load(contract)
	assert.NoError(t, err)
	d := document{root: root}
	for _, tag := range root.list("tags") {
		d.tags = append(d.tags, tag.(object).text("name"))
	}
	pages := d.pages()
	calls := 0
	for _, o := range d.operations() {
		found := 0
		for _, page := range pages {
			found += strings.Count(page, "\n## "+o.heading()+"\n")
		}
		if found != 1 {
			t.Errorf("%s is %d times on the pages", o.heading(), found)
		}
		calls++
	}
	if calls < 50 {
		t.Errorf("%d calls", calls)
	}
	for _, name := range root.object("components").object("schemas").names {
		assert.Contains(t, pages["api/types.md"], "\n## "+name+"\n", "the type %s is on no page", name)
	}
}

// The rules of the pages, on a small document.
func TestPagesOfASmallDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "openapi.yaml")
	const source = `
info: { description: Words. }
tags: [{ name: bells }]
paths:
  /v1/bells/{id}:
    parameters: [{ $ref: "#/components/parameters/id" }]
    put:
      tags: [bells]
      security: [{ key: [operate, all-namespaces] }]
      summary: Ring.
      requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/Bell" } } } }
      responses:
        "200": { description: Rung <now>., content: { application/json: { schema: { type: object, required: [at], properties: { at: { type: string } } } } } }
        "404": { content: { application/problem+json: { schema: { type: object } } } }
components:
  parameters:
    id: { name: id, in: path, description: A|B., schema: { type: string, minLength: 1, maxLength: 9 } }
  schemas:
    Bell:
      type: object
      required: [tone]
      properties:
        tone: { type: string, enum: [low, high], description: Of it. }
        parts: { type: array, items: { type: object, properties: { mass: { type: integer, minimum: 1 } } } }
`
	assert.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	root, err := load(path)
	assert.NoError(t, err)
	pages := document{root, []string{"bells"}}.pages()
	for page, lines := range map[string][]string{
		"api.md": {"| [`PUT /v1/bells/{id}`](api/bells.md#put-v1bellsid) | `operate` in all namespaces | Ring. |", "Words."},
		"api/bells.md": {"## `PUT /v1/bells/{id}`", "Role: `operate` in all namespaces.", `| ` + "`id`" + ` | path | string, 1 to 9 characters | A\|B. |`,
			"Body, `application/json`: [Bell](types.md#bell).", "| 200 | object, `application/json` | Rung &lt;now&gt;. |",
			"| `at` * | string |  |", "| 404 | [Problem](types.md#problem) | |"},
		"api/types.md": {"## Bell", "| `tone` * | `low`, `high` | Of it. |", "| `parts` | array of object |  |", "| `parts[].mass` | integer, from 1 |  |"},
	} {
		for _, line := range lines {
			assert.Contains(t, pages[page], "\n"+line+"\n", "%s lacks %q", page, line)
		}
	}
}
