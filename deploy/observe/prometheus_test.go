package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	later     = 20              // tasks that come due within half an hour
	perSecond = 5               // tasks that are due at once
	patience  = 3 * time.Minute // for an alert to fire or to end
)

// world is a cluster of three nodes, and a Prometheus that scrapes them each second with the rules of this folder.
type world struct {
	t       *testing.T
	cluster *local.Cluster
	api     string // URL of Prometheus
}

// Alerts fire in a real Prometheus while nodes of a real cluster are killed, and end when the nodes are back. The path
// of Prometheus is in BELFRY_PROMETHEUS, and that of promtool in BELFRY_PROMTOOL: `make observe` sets both.
func TestAlertsInPrometheus(t *testing.T) {
	binary := os.Getenv("BELFRY_PROMETHEUS")
	if binary == "" {
		t.Skip("make observe runs this test: it needs a Prometheus")
	}
	cluster, err := local.Start(t.Context(), local.Config{Binary: localtest.Build(t), DataDir: t.TempDir()})
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	w := &world{t: t, cluster: cluster}
	w.schedule()
	w.startPrometheus(binary)
	w.checkPage(os.Getenv("BELFRY_PROMTOOL"))
	w.until("the tasks are counted", func() error { return w.is(`sum(belfry_due_tasks{within="1h"})`, later) })
	w.until("native histograms arrive", func() error {
		return w.isAbove(`sum(histogram_count(belfry_queue_start_lateness_seconds))`, 1)
	})
	w.checkRules()
	w.checkDashboards()
	if firing := w.firing(); len(firing) > 0 {
		t.Errorf("without a fault %v fire", firing)
	}

	w.kill("node-3")
	w.awaitAlert("BelfryNodeDown")
	w.until("each task is counted after the failover", func() error {
		return w.is(`sum(belfry_due_tasks{within="1h"})`, later)
	})
	w.kill("node-2")
	w.awaitAlert("BelfryShardWithoutLeader")
	w.awaitAlert("BelfryControlWithoutLeader")

	for _, name := range []string{"node-2", "node-3"} {
		assert.NoError(t, cluster.StartNode(t.Context(), name))
	}
	w.until("no alert is left", func() error {
		if firing := w.firing(); len(firing) > 0 {
			return fmt.Errorf("%v fire", firing)
		}
		return nil
	})
}

// schedule makes tasks that come due later, and delivers some now.
func (w *world) schedule() {
	arrived := make(chan struct{}, perSecond)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} }))
	w.t.Cleanup(receiver.Close)
	c, err := client.New(client.Config{Addrs: w.cluster.URLs()})
	assert.NoError(w.t, err)
	for i := range later + perSecond {
		task := client.Task{Queue: "mails", Target: &client.Target{URL: receiver.URL}}
		if i < later {
			task.Delay = 30 * time.Minute
		}
		_, err := c.Schedule(w.t.Context(), task)
		assert.NoError(w.t, err)
	}
	for range perSecond {
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			w.t.Fatal("tasks that were due did not arrive")
		}
	}
}

// startPrometheus runs Prometheus until the end of the test.
func (w *world) startPrometheus(binary string) {
	w.t.Helper()
	dir := w.t.TempDir()
	rules, err := filepath.Abs("prometheus/rules")
	assert.NoError(w.t, err)
	var targets []string
	for _, n := range w.cluster.Nodes() {
		targets = append(targets, fmt.Sprintf("%q", n.HTTPAddr))
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: belfry
    static_configs: [{targets: [%s]}]
`, rules+"/*.yml", strings.Join(targets, ", "))
	file, log := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "log")
	assert.NoError(w.t, os.WriteFile(file, []byte(config), 0o600))
	addrs, err := local.FreeAddrs(1)
	assert.NoError(w.t, err)
	prometheus, err := child.Start(child.Config{Log: log, Command: []string{
		binary, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addrs[0],
		"--enable-feature", "native-histograms",
	}})
	assert.NoError(w.t, err)
	w.t.Cleanup(func() {
		assert.Equal(w.t, prometheus.SignalGroup(syscall.SIGKILL), nil)
		<-prometheus.Done()
		if w.t.Failed() {
			w.t.Log(child.LogTail(log))
		}
	})
	w.api = "http://" + addrs[0]
	w.until("Prometheus is ready", func() error {
		if prometheus.Ended() {
			w.t.Fatalf("Prometheus ended: %s", child.LogTail(log))
		}
		_, err := w.get(w.api + "/-/ready")
		return err
	})
}

// checkPage holds the page of a node against the rules of promtool.
func (w *world) checkPage(promtool string) {
	w.t.Helper()
	page, err := w.get("http://" + w.cluster.Nodes()[0].HTTPAddr + "/metrics")
	assert.NoError(w.t, err)
	cmd := exec.CommandContext(w.t.Context(), promtool, "check", "metrics")
	cmd.Stdin = bytes.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		w.t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// checkRules checks that Prometheus can evaluate all rules.
func (w *world) checkRules() {
	w.t.Helper()
	w.until("all rules have been evaluated", func() error {
		var answer struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		w.ask("/api/v1/rules", &answer)
		rules := 0
		for _, g := range answer.Groups {
			for _, r := range g.Rules {
				rules++
				if r.Health != "ok" {
					return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		if rules < 40 {
			return fmt.Errorf("%d rules", rules)
		}
		return nil
	})
}

// checkDashboards asks Prometheus each question of the dashboards.
func (w *world) checkDashboards() {
	w.t.Helper()
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		w.t.Fatalf("no dashboards: %v", err)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "belfry", "$instance", ".*", "$namespace", ".*",
		"$queue", ".*")
	questions := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NoError(w.t, err)
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		assert.NoError(w.t, json.Unmarshal(data, &board))
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				questions++
				_, err := w.query(variables.Replace(target.Expr))
				assert.Equal(w.t, err, nil, "%s, %s: %s", file, p.Title, target.Expr)
			}
		}
	}
	if questions < 50 {
		w.t.Errorf("%d questions", questions)
	}
}

func (w *world) kill(node string) {
	w.t.Helper()
	assert.NoError(w.t, w.cluster.Kill(node))
}

// awaitAlert waits until an alert fires.
func (w *world) awaitAlert(name string) {
	w.t.Helper()
	began := time.Now()
	w.until(name+" fires", func() error {
		if firing := w.firing(); !slices.Contains(firing, name) {
			return fmt.Errorf("%v fire", firing)
		}
		return nil
	})
	w.t.Logf("%s fires after %v", name, time.Since(began).Round(time.Second))
}

// firing returns the sorted names of the alerts that fire, each once.
func (w *world) firing() (names []string) {
	w.t.Helper()
	var answer struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	w.ask("/api/v1/alerts", &answer)
	for _, a := range answer.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *world) is(expr string, want float64) error {
	values, err := w.query(expr)
	if err == nil && (len(values) != 1 || values[0] != want) {
		err = fmt.Errorf("%s is %v, not %v", expr, values, want)
	}
	return err
}

func (w *world) isAbove(expr string, bound float64) error {
	values, err := w.query(expr)
	if err == nil && (len(values) != 1 || values[0] < bound) {
		err = fmt.Errorf("%s is %v, below %v", expr, values, bound)
	}
	return err
}

// query returns the values of the series of an expression.
func (w *world) query(expr string) (values []float64, err error) {
	data, err := w.get(w.api + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			Result []struct {
				Value []json.RawMessage // instant, and the value as a text
			}
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Data.Result {
		var value float64
		if len(r.Value) == 2 {
			if value, err = strconv.ParseFloat(strings.Trim(string(r.Value[1]), `"`), 64); err != nil {
				return nil, err
			}
		}
		values = append(values, value)
	}
	return values, nil
}

// ask reads the data of an answer of Prometheus.
func (w *world) ask(path string, data any) {
	w.t.Helper()
	text, err := w.get(w.api + path)
	if err == nil {
		err = json.Unmarshal(text, &struct{ Data any }{data})
	}
	assert.NoError(w.t, err)
}

func (w *world) get(url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, body.String())
	}
	return body.Bytes(), nil
}

// until tries a condition until the condition holds.
func (w *world) until(what string, holds func() error) {
	w.t.Helper()
	end := time.Now().Add(patience)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %v it does not hold that %s: %v", patience, what, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
