package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

// stage is a cluster of three nodes with a proxy before each, and a receiver of webhooks.
type stage struct {
	cluster *local.Cluster
	key     string
	proxies []*httptest.Server

	mu   sync.Mutex // guards the fields below
	seen func(method, path string)
	trap *trap
	down []string // nodes that a case has ended
}

// trap waits for one request, lets a node answer it, and cuts the connection before the answer reaches the client.
type trap struct {
	method, path string
	then         func() error
	fault        error
	sprung       bool
}

// newStage starts the cluster in a new folder. It demands a key, so that cases can be refused.
func newStage(ctx context.Context, binary, dir string) (*stage, error) {
	cluster, err := local.Start(ctx, local.Config{DataDir: dir, Binary: binary, Auth: true})
	if err != nil {
		return nil, err
	}
	s := &stage{cluster: cluster, seen: func(string, string) {}}
	key, err := os.ReadFile(cluster.KeyFile())
	if err != nil {
		cluster.Stop()
		return nil, err
	}
	s.key = strings.TrimSpace(string(key))
	for _, node := range cluster.URLs() {
		to, err := url.Parse(node)
		if err != nil {
			cluster.Stop()
			return nil, err
		}
		s.proxies = append(s.proxies, httptest.NewServer(s.proxy(to)))
	}
	return s, nil
}

func (s *stage) close() {
	for _, proxy := range s.proxies {
		proxy.CloseClientConnections()
		proxy.Close()
	}
	s.cluster.Stop()
}

// proxy passes requests on to a node. A node that does not run looks as a connection that breaks.
func (s *stage) proxy(to *url.URL) http.Handler {
	pass := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0), // of answers that end with a killed node
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: s.spring,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		seen := s.seen
		s.mu.Unlock()
		seen(r.Method, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/batch") || strings.HasSuffix(r.URL.Path, "/stream") {
			_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1.1, which a httptest server speaks, has it
		}
		pass.ServeHTTP(w, r)
	})
}

// spring takes the answer away if the trap waits for its request.
func (s *stage) spring(answer *http.Response) error {
	s.mu.Lock()
	t := s.trap
	if t == nil || t.sprung || answer.Request.Method != t.method || answer.Request.URL.Path != t.path {
		s.mu.Unlock()
		return nil
	}
	t.sprung = true
	s.mu.Unlock()
	if t.then != nil {
		t.fault = t.then()
	}
	return io.ErrUnexpectedEOF // the error handler cuts the connection
}

// addresses returns the addresses of the proxies.
func (s *stage) addresses() []any {
	var list []any
	for _, proxy := range s.proxies {
		list = append(list, proxy.URL)
	}
	return list
}

// killLeader kills the node that leads the shard of a task, and remembers it for restore.
func (s *stage) killLeader(ctx context.Context, task string) error {
	var found struct{ Shard int }
	if err := s.get(ctx, "/v1/tasks/"+url.PathEscape(task), &found); err != nil {
		return err
	}
	var cluster struct {
		Nodes  []struct{ ID, Name string }
		Shards []struct {
			ID     int
			Leader string
		}
	}
	if err := s.get(ctx, "/v1/cluster", &cluster); err != nil {
		return err
	}
	for _, shard := range cluster.Shards {
		if shard.ID != found.Shard {
			continue
		}
		for _, node := range cluster.Nodes {
			if node.ID == shard.Leader {
				return s.end(node.Name, s.cluster.Kill)
			}
		}
	}
	return fmt.Errorf("shard %d of task %s has no leader", found.Shard, task)
}

// end ends a node by a function of the cluster.
func (s *stage) end(name string, by func(string) error) error {
	s.mu.Lock()
	s.down = append(s.down, name)
	s.mu.Unlock()
	return by(name)
}

// restore starts the nodes that the last case has ended.
func (s *stage) restore(ctx context.Context) error {
	s.mu.Lock()
	down := s.down
	s.down, s.trap = nil, nil
	s.mu.Unlock()
	for _, name := range down {
		if err := s.cluster.StartNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// get reads an answer of the first node that gives one.
func (s *stage) get(ctx context.Context, path string, into any) error {
	var last error
	for _, node := range s.cluster.URLs() {
		if last = s.ask(ctx, node+path, into); last == nil {
			return nil
		}
	}
	return last
}

func (s *stage) ask(ctx context.Context, address string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as needed
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// hook is a receiver that hands its deliveries to the case, and answers 200.
type hook struct {
	server *httptest.Server
	got    chan map[string]any
}

func newHook() *hook {
	h := &hook{got: make(chan map[string]any, 100)}
	h.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			h.got <- requestValue(r, body)
		}
	}))
	return h
}
