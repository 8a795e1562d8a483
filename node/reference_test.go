package node

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

const metricsReference = "../docs/reference/metrics.md"

// metric is one line of the page of metrics.
type metric struct {
	name, kind, labels, help string
}

func (m metric) line() string {
	return fmt.Sprintf("| `%s` | %s | %s | %s |", m.name, m.kind, m.labels, m.help)
}

// TestMetricsReference compares docs/reference/metrics.md with the metrics of a node that has served calls. With
// BELFRY_REFERENCE=write it writes the page.
func TestMetricsReference(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		cfg := testConfig(t)
		cfg.WebhookNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		cfg.BrokerNets = cfg.WebhookNets
		cfg.AMQP = AMQPConfig{Addr: "127.0.0.1:0", Broker: "amqp://127.0.0.1:1"}
		cfg.RedisAddr = "127.0.0.1:0"
		n, c := start(t, cfg)
		if _, err := c.PutQueue(t.Context(), client.Queue{Name: "mails", Retry: &client.Retry{MaxAttempts: 1}}); err != nil {
			t.Fatal(err)
		}
		bury(t, c)
		_, err := c.Schedule(t.Context(), client.Task{ID: "a", Target: &client.Target{URL: "http://127.0.0.1:1/"}})
		assert.NoError(t, err)
		metricsWith(t, plain(t, cfg), "http://"+n.HTTPAddr()+"/metrics", `belfry_queue_dead{namespace="default",queue="mails"} 1`)
		found := metricsOf(t, n)
		if os.Getenv("BELFRY_REFERENCE") == "write" {
			assert.NoError(t, os.WriteFile(metricsReference, []byte(metricsPage(found)), 0o644))
		}
		page, err := os.ReadFile(metricsReference)
		assert.NoError(t, err)
		if len(found) < 50 {
			t.Errorf("%d metrics", len(found))
		}
		if want := metricsPage(found); string(page) != want {
			t.Errorf("%s does not list the metrics of a node: run make reference. It lacks\n%s", metricsReference, missing(string(page), want))
		}
	})
}

// missing returns the lines of a page that another one lacks.
func missing(page, want string) string {
	var lines []string
	for line := range strings.Lines(want) {
		if !strings.Contains(page, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// described matches the text of a metric's descriptor.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)"(?:, unit: ".*?")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// constLabel matches a constant label of a descriptor.
var constLabel = regexp.MustCompile(`(\w+)="[^"]*"`)

// descriptions returns the matches of described in all registered metrics of a node.
func descriptions(t *testing.T, n *Node) (all [][]string) {
	t.Helper()
	for _, registry := range []*prometheus.Registry{n.registry, n.clusterRegistry} {
		descs := make(chan *prometheus.Desc)
		go func() {
			registry.Describe(descs)
			close(descs)
		}()
		for d := range descs {
			parts := described.FindStringSubmatch(d.String())
			if parts == nil {
				t.Errorf("%s is not as expected", d)
				continue
			}
			all = append(all, parts)
		}
	}
	return all
}

// metricsOf returns the metrics that a node has registered, also those without a value yet.
func metricsOf(t *testing.T, n *Node) []metric {
	t.Helper()
	found := map[string]metric{}
	families, err := prometheus.Gatherers{n.registry, n.clusterRegistry}.Gather()
	assert.NoError(t, err)
	for _, f := range families {
		var labels []string
		for _, pair := range f.Metric[0].Label {
			labels = append(labels, pair.GetName())
		}
		found[f.GetName()] = metric{f.GetName(), kindOf(f), labelCell(labels), sentence(f.GetHelp())}
	}
	for _, parts := range descriptions(t, n) {
		if _, ok := found[parts[1]]; ok {
			continue
		}
		kind := "gauge" // the suffix names the type of a metric that has no value yet
		switch {
		case strings.HasSuffix(parts[1], "_total"):
			kind = "counter"
		case strings.HasSuffix(parts[1], "_duration_seconds") && parts[4] != "":
			kind = "histogram"
		}
		labels := strings.FieldsFunc(parts[4], func(r rune) bool { return r == ',' })
		for _, pair := range constLabel.FindAllStringSubmatch(parts[3], -1) {
			labels = append(labels, pair[1])
		}
		found[parts[1]] = metric{parts[1], kind, labelCell(labels), sentence(strings.ReplaceAll(parts[2], `\"`, `"`))}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b metric) int { return cmp.Compare(a.name, b.name) })
}

func kindOf(f *dto.MetricFamily) string { return strings.ToLower(f.GetType().String()) }

func labelCell(labels []string) string {
	slices.Sort(labels)
	for i, l := range labels {
		labels[i] = "`" + l + "`"
	}
	return strings.Join(labels, ", ")
}

// sentence returns the help of a metric for a cell of a table.
func sentence(help string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(strings.TrimSuffix(help, ".") + ".")
}

// metricsPage returns the page. The metrics of Go's runtime and of the process are named, not listed.
func metricsPage(all []metric) string {
	var page strings.Builder
	page.WriteString("# Metrics\n\n<!-- Made from the metrics of a running node by `make reference`. -->\n\n" +
		"Each node answers `GET /metrics` in the formats of Prometheus: those of the whole node, and those of the shards and " +
		"queues that it holds or leads. [Watch a cluster](../operations/watch.md#what-to-look-at) names the ones to watch " +
		"first. A metric with labels appears with its first value.\n\n" +
		"Beside these there are the usual `go_…` and `process_…` of Go's runtime and of the process.\n")
	group := ""
	for _, m := range all {
		if !strings.HasPrefix(m.name, "belfry_") {
			continue
		}
		if first := strings.SplitN(m.name, "_", 3)[1]; first != group {
			group = first
			fmt.Fprintf(&page, "\n## `belfry_%s`\n\n| metric | type | labels | |\n| --- | --- | --- | --- |\n", group)
		}
		page.WriteString(m.line() + "\n")
	}
	return page.String()
}

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
