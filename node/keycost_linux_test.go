package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/internal/assert"
)

// loadVariable holds the load that a process of TestLoad makes, as JSON.
const loadVariable = "BELFRY_TEST_LOAD"

// load is a number of schedules at the nodes of a cluster.
type load struct {
	URLs  []string
	Key   string
	CA    string // file of the authority of the nodes' certificates; empty: plain HTTP
	Calls int
	Lines int // of each call, which is a batch; 0: each call schedules one task
}

// TestLoad is the process of the callers in BenchmarkCostOfAKey, so that its processor time is not that of the nodes.
func TestLoad(t *testing.T) {
	text := os.Getenv(loadVariable)
	if text == "" {
		t.Skip("it is the process of the callers in a benchmark")
	}
	var l load
	assert.NoError(t, json.Unmarshal([]byte(text), &l))
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if l.CA != "" {
		var err error
		transport.TLSClientConfig, err = client.LoadTLS(l.CA, "", "")
		assert.NoError(t, err)
	}
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 24 {
		callers.Go(func() {
			for n := int(next.Add(1)); n <= l.Calls; n = int(next.Add(1)) {
				if err := l.schedule(t.Context(), &http.Client{Transport: transport}, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// schedule makes the call with a number.
func (l *load) schedule(ctx context.Context, c *http.Client, n int) error {
	const body = `{"delay":"1h","payload":{"order":1042,"close":true}}`
	method, path, kind, text := http.MethodPut, fmt.Sprint("/v1/tasks/order-", n), "application/json", body
	if l.Lines > 0 {
		var lines strings.Builder
		for i := range l.Lines {
			fmt.Fprintf(&lines, `{"op":"schedule","id":"order-%d-%d",%s`+"\n", n, i, body[1:])
		}
		method, path, kind, text = http.MethodPost, "/v1/batch", "application/x-ndjson", lines.String()
	}
	req, err := http.NewRequestWithContext(ctx, method, l.URLs[n%len(l.URLs)]+path, strings.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	if l.Key != "" {
		req.Header.Set("Authorization", "Bearer "+l.Key)
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	answer, err := io.ReadAll(resp.Body)
	if done := bytes.Count(answer, []byte(`"status":20`)); resp.StatusCode > 201 || l.Lines > 0 && done != l.Lines {
		return fmt.Errorf("%s: %.200s", resp.Status, answer)
	}
	return err
}

// run makes the load in a process of its own. It returns the processor time of this one for each task.
func (l load) run(b *testing.B) time.Duration {
	b.Helper()
	text, err := json.Marshal(l)
	assert.NoError(b, err)
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestLoad$")
	cmd.Env = append(os.Environ(), loadVariable+"="+string(text))
	runtime.GC() // so that each run pays for its own garbage
	began := processorTime(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return (processorTime(b) - began) / time.Duration(l.Calls*max(l.Lines, 1))
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	assert.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCostOfAKey measures the processor time of three nodes for each scheduled task, without keys, with a key, and
// with a key over TLS, by turns. All callers reach the same nodes, at ports of their own. Run it with -benchtime 1x.
func BenchmarkCostOfAKey(b *testing.B) {
	plain, keyed, encrypted := newPriced(b)
	for name, size := range map[string][2]int{"single": {1500, 0}, "batch": {12, 1000}} {
		b.Run(name, func(b *testing.B) {
			const rounds = 60
			var cost [3][]float64           // in µs for each task
			for round := range rounds + 1 { // the first one only warms up
				for turn := range cost {
					kind := (round + turn) % len(cost)
					l := []load{plain, keyed, encrypted}[kind]
					l.Calls, l.Lines = size[0], size[1]
					cost[kind] = append(cost[kind], float64(l.run(b).Nanoseconds())/1000)
				}
			}
			b.ReportMetric(0, "ns/op")
			for kind, unit := range []string{"µs/task", "µs/task-key", "µs/task-key-TLS"} {
				mean, spread := summary(cost[kind][1:], nil)
				b.ReportMetric(mean, unit)
				b.Logf("%s: %.2f ± %.2f", unit, mean, spread)
			}
			for i, what := range []string{"key", "TLS"} {
				added, spread := summary(cost[i+1][1:], cost[i][1:])
				mean, _ := summary(cost[i][1:], nil)
				b.ReportMetric(100*added/mean, "%-for-"+what)
				b.Logf("%s: %.2f ± %.2f µs, %.2f ± %.2f %%", what, added, spread, 100*added/mean, 100*spread/mean)
			}
		})
	}
}

// summary returns the mean of values, or of their differences from others, and its standard error. The tenths at both
// ends do not count: a snapshot of a shard falls into single rounds.
func summary(values, others []float64) (mean, spread float64) {
	sorted := slices.Clone(values)
	for i := range others {
		sorted[i] -= others[i]
	}
	slices.Sort(sorted)
	sorted = sorted[len(sorted)/10 : len(sorted)-len(sorted)/10]
	for _, v := range sorted {
		mean += v / float64(len(sorted))
	}
	for _, v := range sorted {
		spread += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(spread) / float64(len(sorted))
}

// newPriced starts three nodes, each with a port for calls without keys, one with keys, and one with keys and TLS.
func newPriced(b *testing.B) (plain, keyed, encrypted load) {
	b.Helper()
	nodes, ring := startThree(b), newKeyring(b)
	text, _, err := nodes[0].cluster.Tenants().NewKey(b.Context(), tenants.KeySpec{
		Name: "b", Grants: []access.Grant{{Role: access.Schedule, Namespace: "default"}},
	})
	assert.NoError(b, err)
	keyed.Key, encrypted.Key, encrypted.CA = text, text, ring.path("ca.pem")
	for _, n := range nodes {
		source := n.cluster.Tenants()
		plain.URLs = append(plain.URLs, "http://"+serveAs(b, n, unforced{source}, nil))
		keyed.URLs = append(keyed.URLs, "http://"+serveAs(b, n, source, nil))
		encrypted.URLs = append(encrypted.URLs,
			"https://"+serveAs(b, n, source, &tls.Config{Certificates: []tls.Certificate{ring.pair(b)}}))
	}
	return plain, keyed, encrypted
}

// unforced are the keys of a cluster that demands none.
type unforced struct{ access.Source }

func (unforced) KeysInForce() bool { return false }

// startThree starts the nodes of one cluster, and waits until all are ready.
func startThree(b *testing.B) (nodes []*Node) {
	b.Helper()
	peers := []string{freeAddr(b, Config{}), freeAddr(b, Config{}), freeAddr(b, Config{})}
	for i, peer := range peers {
		cfg := testConfig(b)
		cfg.PeerAddr, cfg.Join, cfg.BootstrapExpect = peer, slices.Delete(slices.Clone(peers), i, i+1), len(peers)
		n, err := Start(b.Context(), cfg)
		assert.NoError(b, err)
		b.Cleanup(func() {
			assert.Equal(b, n.Close(), nil)
		})
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		awaitReady(b, http.DefaultClient, "http://"+n.HTTPAddr())
	}
	return nodes
}

// serveAs serves the API of a node at another port, as the node does, with callers by a source. It returns the address.
func serveAs(b *testing.B, n *Node, source access.Source, secured *tls.Config) (addr string) {
	b.Helper()
	callers, err := access.New(access.Config{Source: source})
	assert.NoError(b, err)
	api, err := httpapi.New(httpapi.Config{
		Backend: newBackend(n.cluster), Access: callers, Limits: n.cluster.Quotas(), Audit: auditor{n.audit.Load(), n.cluster},
		Receivers: n.receivers, Origins: n.origins, Now: n.cluster.Now, Logger: slog.New(slog.DiscardHandler),
	})
	assert.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(b, err)
	server := api.HTTPServer()
	b.Cleanup(func() { _ = server.Close() }) // its callers have ended
	addr = l.Addr().String()
	if secured != nil {
		l = tls.NewListener(l, secured)
	}
	go func() { _ = server.Serve(l) }() // its error is the end of the benchmark
	return addr
}
