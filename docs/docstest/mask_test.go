package docstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// rule replaces text that differs from run to run.
type rule struct {
	pattern *regexp.Regexp
	by      string
}

// alwaysMasked are the rules for times, and for generated numbers and names.
var alwaysMasked = []rule{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "‹instant›"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d+`), "‹clock›"},
	{regexp.MustCompile(`\b\d{10}\b`), "‹unix›"},
	{regexp.MustCompile(`\bmsg_[0-9a-z]+`), "‹webhook-id›"},
	{regexp.MustCompile(`\b[a-z2-7]{16}\b`), "‹node›"},
	{regexp.MustCompile(`\b(fence|pid|revision|shard)(:?\s+)\d+`), "$1$2‹number›"},
	{regexp.MustCompile(`[+-]?\b(\d+h)?(\d+m)?\d+(\.\d+)?\s?(ns|µs|ms|s|m|h)\b`), "‹duration›"},
}

// maskedFigures are additional rules for measurements, in blocks with the option shape.
var maskedFigures = []rule{
	{regexp.MustCompile(`\bnode-\d+`), "node-‹n›"},
	{regexp.MustCompile(`\b(\d+ )?shards?\b`), "‹shards›"}, // one of these texts has no number
	{regexp.MustCompile(`[█░]+`), ""},
	{regexp.MustCompile(`\b\d+([.,]\d+)*\b`), "‹figure›"},
}

func mask(text string, rules []rule) string {
	for _, r := range rules {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	return text
}

// lines returns the masked lines of a text, without extra white space. With shape, it also masks figures and joins
// equal lines.
func lines(text string, shape bool) []string {
	var masked []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = mask(line, alwaysMasked)
		if shape {
			line = mask(line, maskedFigures)
		}
		masked = append(masked, strings.Join(strings.Fields(line), " "))
	}
	if shape {
		masked = slices.Compact(masked)
	}
	return masked
}

// contains reports whether lines are adjacent in all.
func contains(all, lines []string) bool {
	for i := range len(all) - len(lines) + 1 {
		if slices.Equal(all[i:i+len(lines)], lines) {
			return true
		}
	}
	return false
}

// numbered are the fields whose numbers differ from run to run.
var numbered = []string{"applied", "commands", "fence", "revision", "shard", "term"}

// maskJSON masks a value that encoding/json decoded.
func maskJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			_, number := value.(float64)
			switch {
			case number && slices.Contains(numbered, name):
				v[name] = "‹number›"
			case name == "receipt":
				v[name] = "‹receipt›"
			default:
				v[name] = maskJSON(value)
			}
		}
	case []any:
		for i, value := range v {
			v[i] = maskJSON(value)
		}
	case string:
		return mask(v, alwaysMasked)
	}
	return v
}

// documents decodes the JSON documents in a text.
func documents(text string) ([]any, error) {
	var all []any
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("this is no JSON: %w", err)
		}
		all = append(all, v)
	}
}

// compareJSON compares the documents of a page with the last printed ones.
func compareJSON(shown, printed []any) error {
	if len(shown) == 0 || len(shown) > len(printed) {
		return fmt.Errorf("%d answers are shown, %d were given", len(shown), len(printed))
	}
	for i, v := range printed[len(printed)-len(shown):] {
		want, got := maskJSON(copied(shown[i])), maskJSON(copied(v))
		if !reflect.DeepEqual(want, got) {
			return fmt.Errorf("the page shows\n%s\nand the answer was\n%s", indented(shown[i]), indented(v))
		}
	}
	return nil
}

func copied(v any) (c any) {
	data, _ := json.Marshal(v) // cannot fail: the value was decoded from JSON
	_ = json.Unmarshal(data, &c)
	return c
}

func indented(v any) string {
	data, _ := json.MarshalIndent(v, "", "  ") // cannot fail: the value was decoded from JSON
	return string(data)
}

func TestLinesAreMasked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown, printed string
		shape, same    bool
	}{
		{"due 2026-11-23T00:26:37.687Z (now)", "due 2027-01-02T10:00:00Z (now)", false, true},
		{"00:26:37.688  a-1  attempt 1  1.8 ms late", "12:01:02.001 a-1 attempt 1 12 ms late", false, true},
		{"00:26:37.688  a-1  attempt 1  1.8 ms late", "12:01:02.001 a-1 attempt 2 12 ms late", false, false},
		{"a  msg_pn37ca86b856m0000000000008  fence 8", "a msg_1 fence 10", false, true},
		{"node-1 started (pid 20658)", "node-1 started (pid 1)", false, true},
		{"node-1 started (pid 20658)", "node-2 started (pid 1)", false, false},
		{"answered 200", "answered 500", false, false},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9001", false, false},
		{"b", "a\nb\nc", false, true},
		{"a\nc", "a\nb\nc", false, false},
		{"all 5000 0.7 ms\nx", "all 4,999 12.5 ms\nx", true, true},
		{"all 5000 0.7 ms", "some 4999 12.5 ms", true, false},
		{"under 1ms 3790 ███░\nunder 2ms 33 █\nend", "under 1s 1 ░\nend", true, true},
		{"until its shard is back", "until its 4 shards is back", true, true},
		{"kill -9 of node-3 after 1s", "kill -9 of node-1 after 916ms", true, true},
	} {
		if contains(lines(c.printed, c.shape), lines(c.shown, c.shape)) != c.same {
			t.Errorf("%q in %q, shape %v: not %v", c.shown, c.printed, c.shape, c.same)
		}
	}
}

func TestAnswersAreMasked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{`{"a": 1}`, `{"a":1}`, true},
		{`{"a": 1}`, `{"a":2}`, false},
		{`{"a": 1}`, `{"a":1,"b":2}`, false},
		{`{"b": 2}`, `{"a": 1} {"b": 2}`, true},
		{`{"a": 1}`, `{"a": 1} {"b": 2}`, false},
		{`{"a": 1} {"b": 2}`, `{"b": 2}`, false},
		{`{"revision": 4, "shard": 1}`, `{"revision": 5, "shard": 2}`, true},
		{`{"revision": 4}`, `{"revision": null}`, false},
		{`{"at": "2026-11-23T00:26:37.687Z"}`, `{"at": "2027-01-02T10:00:00.000Z"}`, true},
		{`{"at": "2026-11-23T00:26:37.687Z"}`, `{"at": null}`, false},
		{`{"late": "6h"}`, `{"late": "6h1ms"}`, true},
		{`{"late": "3ms"}`, `{"late": "1h2m3.5s"}`, true},
		{`{"late": "3ms"}`, `{"late": "3h of ms"}`, false},
		{`{"l": [{"receipt": "AS2"}]}`, `{"l": [{"receipt": "xyz"}]}`, true},
		{`{"l": [{"receipt": "AS2"}]}`, `{"l": []}`, false},
	} {
		shown, err := documents(c.shown)
		assert.NoError(t, err)
		printed, err := documents(c.printed)
		assert.NoError(t, err)
		if err := compareJSON(shown, printed); (err == nil) != c.same {
			t.Errorf("%s and %s: %v", c.shown, c.printed, err)
		}
	}
}
