package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct{ want, got, diff string }{
		{`1`, `1`, ``},
		{`1`, `"1"`, ``},
		{`18446744073709551615`, `"18446744073709551615"`, ``},
		{`1`, `2`, `is 2`},
		{`null`, `null`, ``},
		{`null`, `0`, `is 0`},
		{`"<any>"`, `false`, ``},
		{`"<any>"`, `null`, `absent`},
		{`"<absent>"`, `null`, ``},
		{`"<absent>"`, `1`, `should be absent`},
		{`{"a": 1}`, `{"a": 1, "b": 2}`, ``},
		{`{"a": {"b": 1}}`, `{"a": {"b": 2}}`, `x.a.b is 2`},
		{`[{}, {}]`, `[{"a": 1}, {}]`, ``},
		{`[{}]`, `[{}, {}]`, `1 items`},
		{`{"a": 1}`, `[]`, `should be an object`},
		{`"2027-01-01T00:00:00Z"`, `"2027-01-01T01:00:00.000+01:00"`, ``},
		{`"2027-01-01T00:00:00Z"`, `"2027-01-01T01:00:00Z"`, `should be`},
	} {
		var want, got any
		assert.NoError(t, decode([]byte(c.want), &want))
		assert.NoError(t, decode([]byte(c.got), &got))
		diff := match(want, got, "x")
		if (diff == "") != (c.diff == "") || !strings.Contains(diff, c.diff) {
			t.Errorf("%s against %s: %q", c.want, c.got, diff)
		}
	}
}

func TestFill(t *testing.T) {
	v := variables{"n": 7, "a": "x", "list": []any{1}}
	got, err := v.fill(map[string]any{"${a}": []any{"${n}", "${n}-${a}", "${ab*3}", "${list}"}})
	assert.NoError(t, err)
	if diff := match(map[string]any{"x": []any{7, "7-x", "ababab", []any{1}}}, got, "filled"); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"${none}", "a ${none}", "${a*b}"} {
		if _, err := v.fill(text); err == nil {
			t.Errorf("%s is filled", text)
		}
	}
}

func TestContract(t *testing.T) {
	c, err := readContract("../../../../httpapi/openapi.yaml")
	assert.NoError(t, err)
	for path, want := range map[string]string{
		"/v1/tasks/a": "getTask", "/v1/namespaces/n/tasks/a": "getTask", "/v1/namespaces/n": "getNamespace",
		"/v1/nodes/tokens": "listJoinTokens", "/v1/queues": "listQueues", "/v1/none": "",
	} {
		if got := c.of(http.MethodGet, path); got != want {
			t.Errorf("GET %s: %q, not %q", path, got, want)
		}
	}
	covered := newCoverage()
	all := len(covered.missing(c, nil))
	if all < 100 {
		t.Errorf("%d operations and problems", all)
	}
	covered.operations["getTask"], covered.problems["no-room"] = true, true
	if left := len(covered.missing(c, map[string]string{"metrics": "a monitor asks it"})); left != all-3 {
		t.Errorf("%d are missing, and %d were", left, all)
	}
}

// Each case has steps, a name of its own, and calls that are operations or the README's.
func TestCases(t *testing.T) {
	s, err := readCases("../..")
	assert.NoError(t, err)
	s.contract, err = readContract("../../../../httpapi/openapi.yaml")
	assert.NoError(t, err)
	names := map[string]bool{}
	for _, c := range s.cases {
		if names[c.Name] || c.Name == "" || len(c.Steps) == 0 {
			t.Errorf("%q is there twice, or has no steps", c.Name)
		}
		names[c.Name] = true
		steps := c.Steps
		for _, step := range c.Steps {
			steps = append(steps, step.Steps...)
		}
		for _, step := range steps {
			own := strings.Contains(" open consume receiver verify ", " "+step.Call+" ")
			if step.Call != "" && !own && s.contract.named(step.Call) == nil {
				t.Errorf("%s: there is no operation %s", c.Name, step.Call)
			}
		}
	}
	for name := range s.outside {
		if s.contract.named(name) == nil {
			t.Errorf("outside: there is no operation %s", name)
		}
	}
}
