package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/belfryhq/belfry/cluster/certs"
	"github.com/belfryhq/belfry/internal/assert"
)

// observed is the folder of rules and dashboards, and runbooks that of the pages about alerts.
const (
	observed = "../deploy/observe"
	runbooks = "../docs/runbooks"
)

// knownMetrics returns the names of all metrics of a node that uses every part: certificates, an issuer of tokens and a
// history. It also reads descriptions of metrics that have no value yet.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	k := newKeyring(t)
	files := certs.NodeFiles(k.NodeDir("n1"))
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	rule := "rules: [{claim: a, values: [b], grants: [{role: read, namespace: c}]}]"
	assert.NoError(t, os.WriteFile(roles, []byte(rule), 0o600))
	cfg := testConfig(t)
	cfg.Name, cfg.TLS, cfg.PeerKeys = "n1", k.tls(), &files
	cfg.Access = AccessConfig{OIDCIssuer: "http://" + freeAddr(t, cfg), OIDCAudience: "belfry", OIDCRoles: roles}
	n, err := Start(t.Context(), cfg)
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, n.Close(), nil)
	}()
	awaitReady(t, k.caller(cfg, true), "https://"+n.HTTPAddr())
	known := map[string]bool{"up": true, "ALERTS": true}
	for _, parts := range descriptions(t, n) {
		known[parts[1]] = true
	}
	return known
}

// ruleFile is a file of rules of Prometheus.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Record, Alert, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) ruleFile {
	t.Helper()
	data, err := os.ReadFile(observed + "/prometheus/rules/belfry.yml")
	assert.NoError(t, err)
	var file ruleFile
	assert.NoError(t, yaml.Unmarshal(data, &file))
	return file
}

// pagesOf returns the texts of the files that match a pattern, by their paths.
func pagesOf(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			assert.NoError(t, err)
			texts[path] = string(data)
		}
	}
	return texts
}

// expressions returns the values of the fields with PromQL in a dashboard.
func expressions(t *testing.T, dashboard string) (found []string) {
	t.Helper()
	var document any
	assert.NoError(t, json.Unmarshal([]byte(dashboard), &document))
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if text, ok := value.(string); ok && (key == "expr" || key == "definition") {
					found = append(found, text)
				}
				walk(value)
			}
		case []any:
			for _, value := range v {
				walk(value)
			}
		}
	}
	walk(document)
	return found
}

var (
	quoted     = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|\{\{[^}]*\}\}`)
	metricName = regexp.MustCompile(`[a-z_:]*\b(?:belfry|process|go)_[a-z0-9_:]+|\b(?:up|ALERTS)\b|[a-z_]+:[a-z0-9_:]+`)
	suffix     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// Every metric that a rule, a dashboard, a runbook, the example for KEDA or a page names is one of a node, or is
// recorded by a rule.
func TestObservedMetricsExist(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		known := knownMetrics(t)
		rules := readRules(t)
		places := map[string][]string{} // expressions by place
		for _, group := range rules.Groups {
			for _, r := range group.Rules {
				if r.Record != "" {
					known[r.Record] = true
				}
				places["rule "+r.Record+r.Alert] = []string{r.Expr}
			}
		}
		for path, text := range pagesOf(t, observed+"/grafana/dashboards/*.json") {
			places[path] = expressions(t, text)
			if len(places[path]) < 10 {
				t.Errorf("%s has %d expressions", path, len(places[path]))
			}
		}
		for path, text := range pagesOf(t, observed+"/keda/*.yaml", runbooks+"/*.md", "../docs/*.md") {
			places[path] = regexp.MustCompile(`\b[a-z_:]*belfry_[a-z_:]+`).FindAllString(text, -1)
		}
		names := 0
		for place, exprs := range places {
			for _, expr := range exprs {
				for _, name := range metricName.FindAllString(quoted.ReplaceAllString(expr, ""), -1) {
					names++
					if name != "belfry_namespaces" && !known[name] && !known[suffix.ReplaceAllString(name, "")] {
						t.Errorf("%s names %s, which is no metric", place, name)
					}
				}
			}
		}
		if names < 200 {
			t.Errorf("%d names found", names)
		}
	})
}

// Each alert has a severity, a summary, a description, a test and a runbook, and each runbook has an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	const url = "https://github.com/belfryhq/belfry/blob/main/docs/runbooks/"
	tests := ""
	for _, text := range pagesOf(t, observed+"/prometheus/tests/*.yml") {
		tests += text
	}
	pages := pagesOf(t, runbooks+"/*.md")
	index := pages[runbooks+"/README.md"]
	delete(pages, runbooks+"/README.md")
	for _, group := range readRules(t).Groups {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) ||
				r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks a severity, a summary or a description", r.Alert)
			}
			if !regexp.MustCompile(`alertname: ` + r.Alert + `\n +exp_alerts:\n`).MatchString(tests) {
				t.Errorf("no test in which %s fires", r.Alert)
			}
			name, ok := strings.CutPrefix(r.Annotations["runbook_url"], url)
			path := filepath.Join(runbooks, name)
			if page, err := os.ReadFile(path); !ok || err != nil || !strings.HasPrefix(string(page), "# "+r.Alert+"\n") {
				t.Errorf("%s has no runbook at %q", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.Contains(index, "| "+r.Alert+" | ["+strings.TrimSuffix(name, ".md")+"]("+name+") |") {
				t.Errorf("the list of runbooks lacks %s", r.Alert)
			}
			delete(pages, path)
		}
	}
	for path := range pages {
		t.Errorf("%s belongs to no alert", path)
	}
}

// A dashboard has a stable id, which is the name of its file, and panels with titles, descriptions and units.
func TestDashboards(t *testing.T) {
	for path, text := range pagesOf(t, observed+"/grafana/dashboards/*.json") {
		var d struct {
			UID, Title string
			Templating struct{ List []struct{ Name string } }
			Panels     []struct {
				ID                       int
				Type, Title, Description string
				GridPos                  struct{ X, Y, W, H int }
				FieldConfig              struct {
					Defaults struct{ Unit string }
				}
			}
		}
		assert.NoError(t, json.Unmarshal([]byte(text), &d))
		if d.UID+".json" != filepath.Base(path) || d.Title == "" || len(d.Templating.List) < 2 {
			t.Errorf("%s: id %s, title %q", path, d.UID, d.Title)
		}
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || p.Type != "row" && p.Description == "" {
				t.Errorf("%s: panel %d %q: its id is taken, or it lacks a title or a description", path, p.ID, p.Title)
			}
			ids[p.ID] = true
			if (p.Type == "timeseries" || p.Type == "stat") && p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: %s has no unit", path, p.Title)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x > 23 {
						t.Fatalf("%s: %s lies over %s", path, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}
