package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// exchange is one request that a scripted peer must see, and its raw answer.
type exchange struct {
	At    int               `yaml:"at"`    // number of the peer, from 1; 0: any
	Want  map[string]any    `yaml:"want"`  // method, path, query, headers, body
	Save  map[string]string `yaml:"save"`  // variables from the request, by their paths
	After time.Duration     `yaml:"after"` // least time since the exchange before

	Status  any               `yaml:"status"` // absent: 200
	Headers map[string]string `yaml:"headers"`
	Body    any               `yaml:"body"` // a text goes out as it is, all else as JSON
	Problem map[string]any    `yaml:"problem"`
	Cut     bool              `yaml:"cut"`  // the connection ends, behind Body if there is one
	Hang    bool              `yaml:"hang"` // no answer comes
}

// script answers the requests to its peers by a list of exchanges.
type script struct {
	servers []*httptest.Server
	vars    variables
	seen    func(method, path string)

	mu        sync.Mutex // guards the fields below and vars
	exchanges []exchange
	at        int
	last      time.Time
	faults    []string
}

func newScript(exchanges []exchange, peers int, vars variables, seen func(method, path string)) *script {
	s := &script{exchanges: exchanges, vars: vars, seen: seen}
	var urls []any
	for i := range max(peers, 1) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(i+1, w, r) }))
		s.servers = append(s.servers, server)
		urls = append(urls, server.URL)
		vars[fmt.Sprintf("peer%d", i+1)] = server.URL
	}
	vars["peers"] = urls
	return s
}

// close ends the peers, and returns the faults of the requests.
func (s *script) close() error {
	for _, server := range s.servers {
		server.CloseClientConnections()
		server.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at < len(s.exchanges) && len(s.faults) == 0 {
		s.faults = append(s.faults, fmt.Sprintf("the peers saw %d requests of %d", s.at, len(s.exchanges)))
	}
	if len(s.faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.faults, "; "))
}

func (s *script) serve(peer int, w http.ResponseWriter, r *http.Request) {
	s.seen(r.Method, r.URL.Path)
	e, fault := s.next(peer, r)
	if fault != "" {
		s.mu.Lock()
		s.faults = append(s.faults, fault)
		s.mu.Unlock()
		http.Error(w, fault, http.StatusTeapot)
		return
	}
	if e.Hang {
		<-r.Context().Done()
		return
	}
	e.write(w)
}

// next takes the next exchange, and compares the request with it.
func (s *script) next(peer int, r *http.Request) (*exchange, string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, "the request broke off: " + err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == len(s.exchanges) {
		return nil, fmt.Sprintf("request %d is one too many: %s %s", s.at+1, r.Method, r.URL)
	}
	e := s.exchanges[s.at]
	s.at++
	name := fmt.Sprintf("request %d", s.at)
	since := time.Since(s.last)
	s.last = time.Now()
	if e.After > 0 && since < e.After {
		return nil, fmt.Sprintf("%s came after %v, before %v", name, since, e.After)
	}
	if e.At != 0 && e.At != peer {
		return nil, fmt.Sprintf("%s went to peer %d, not to %d", name, peer, e.At)
	}
	got := requestValue(r, body)
	want, err := s.vars.fill(e.Want)
	if err != nil {
		return nil, err.Error()
	}
	if diff := match(want, got, name); diff != "" {
		return nil, diff
	}
	for name, path := range e.Save {
		if s.vars[name], err = at(got, path); err != nil {
			return nil, err.Error()
		}
	}
	filled, err := s.vars.fill(map[string]any{"body": e.Body, "problem": e.Problem, "headers": textMap(e.Headers),
		"status": e.Status})
	if err != nil {
		return nil, err.Error()
	}
	parts := filled.(map[string]any)
	e.Body, e.Problem, e.Status = parts["body"], parts["problem"].(map[string]any), parts["status"]
	e.Headers = map[string]string{}
	for name, value := range parts["headers"].(map[string]any) {
		e.Headers[name] = fmt.Sprint(value)
	}
	return &e, ""
}

// requestValue returns a request as a value for match. Names of headers are in lower case.
func requestValue(r *http.Request, body []byte) map[string]any {
	headers := map[string]any{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	got := map[string]any{"method": r.Method, "path": r.URL.EscapedPath(), "query": r.URL.RawQuery, "headers": headers,
		"text": string(body)}
	var content any
	if decode(body, &content) == nil {
		got["body"] = content
	}
	return got
}

const problemPrefix = "urn:belfry:problem:"

func (e *exchange) write(w http.ResponseWriter) {
	var body []byte
	h := w.Header()
	switch content := e.Body.(type) {
	case nil:
	case string:
		body = []byte(content)
	default:
		h.Set("Content-Type", "application/json")
		body = mustJSON(content)
	}
	if len(e.Problem) > 0 {
		h.Set("Content-Type", "application/problem+json")
		problem := maps.Clone(e.Problem)
		problem["type"] = problemPrefix + fmt.Sprint(problem["type"])
		problem["status"] = e.Status
		if problem["title"] == nil {
			problem["title"] = "A problem of the script."
		}
		body = mustJSON(problem)
	}
	for name, value := range e.Headers {
		h.Set(name, value)
	}
	if e.Cut && body == nil {
		panic(http.ErrAbortHandler)
	}
	status, ok := e.Status.(int)
	if !ok {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	if e.Cut || err != nil {
		_ = http.NewResponseController(w).Flush() // the connection ends in any case
		panic(http.ErrAbortHandler)
	}
}

func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a value of YAML with texts as names always has a JSON
	}
	return text
}

func textMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for name, value := range m {
		out[name] = value
	}
	return out
}
