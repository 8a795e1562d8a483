package main

import (
	"context"
	"errors"
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

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// stage is a cluster of three nodes with a proxy before each, and a receiver of webhooks.
type stage struct {
	cluster *local.Cluster
	key     string
	client  *client.Client // of the nodes themselves, to find leaders
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
	sprung       bool
	done         chan error // capacity 1: the outcome of then
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
	s.client, err = client.New(client.Config{Addrs: cluster.URLs(), Key: client.NewSecret(s.key)})
	if err != nil {
		cluster.Stop()
		return nil, err
	}
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
	s.client.Close()
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
	t.done <- t.then()
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
	found, err := s.client.Get(ctx, task)
	if err != nil {
		return err
	}
	cluster, err := s.client.Cluster(ctx)
	if err != nil {
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

// restore starts the nodes that the last case has ended. It returns the failure of the trap that the case has set.
func (s *stage) restore(ctx context.Context) error {
	s.mu.Lock()
	down, set := s.down, s.trap
	s.down, s.trap = nil, nil
	sprung := set != nil && set.sprung
	s.mu.Unlock()
	var failed error
	switch {
	case sprung:
		failed = <-set.done
	case set != nil:
		failed = fmt.Errorf("no %s of %s came into the trap", set.method, set.path)
	}
	for _, name := range down {
		if err := s.cluster.StartNode(ctx, name); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
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
