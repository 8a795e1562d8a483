package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// world is a cluster in memory, which a client reaches by its RoundTripper. It uses no sockets, so that a test can run
// in a bubble of synctest. Nodes are named by their host. Each node answers every batch line with 201 and revision 7
// unless the test sets another answer.
type world struct {
	t *testing.T

	mu      sync.Mutex
	view    view.Map
	nodes   map[string]*worldNode              // by address
	batches []*sentBatch                       // in order of arrival
	others  []string                           // method, host and path of all other requests
	carried []string                           // URL without its query, and key, of all requests
	refuse  func(*http.Request) *http.Response // of any request; nil: none
}

type worldNode struct {
	id      string
	cluster string
	version string // of the map, in its batches' headers; empty: the view's
	down    error  // the error of a request; nil: the node answers
	hold    chan struct{}
	held    func(b *sentBatch) bool           // selects the batches for hold; nil: all
	answer  func(b *sentBatch, i int) string  // to one line; nil: created
	refuse  func(b *sentBatch) *http.Response // of the whole request; nil: none
}

// sentBatch is a batch as a node got it.
type sentBatch struct {
	host  string
	lines []sentLine
	text  string
}

type sentLine struct {
	Op, ID, Key string
}

func (b *sentBatch) ids() string {
	var ids []string
	for _, l := range b.lines {
		ids = append(ids, l.ID)
	}
	return strings.Join(ids, " ")
}

// newWorld returns a world with nodes n1, n2, … at the given addresses. Slots are spread evenly over as many shards; n1
// leads the first, and so on.
func newWorld(t *testing.T, addrs ...string) *world {
	w := &world{t: t, nodes: map[string]*worldNode{}, view: view.Map{ClusterID: "c1", Version: "m1"}}
	slots := contract.SlotCount/len(addrs) + 1
	for i, addr := range addrs {
		id := fmt.Sprint("n", i+1)
		w.nodes[addr] = &worldNode{id: id, cluster: "c1"}
		w.view.Nodes = append(w.view.Nodes, view.MapNode{ID: id, URL: "http://" + addr})
		w.view.Shards = append(w.view.Shards, view.MapShard{ID: uint32(i + 1), Leader: id,
			Slots: []Slots{{First: uint32(i * slots), End: uint32(min((i+1)*slots, contract.SlotCount))}}})
	}
	return w
}

// client returns a client of this world.
func (w *world) client(cfg Config) *Client {
	w.t.Helper()
	cfg.HTTPClient = &http.Client{Transport: w}
	c, err := New(cfg)
	assert.NoError(w.t, err)
	w.t.Cleanup(c.Close) // in the test's bubble
	return c
}

// change changes the world while a client runs.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// sent returns the batches so far.
func (w *world) sent() []*sentBatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.batches)
}

// carriedTo returns the requests to a host, each with its URL and key, sorted and without repeats.
func (w *world) carriedTo(host string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for _, c := range w.carried {
		if strings.Contains(c, "://"+host+"/") {
			found = append(found, c)
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// countRequests returns the number of other requests that contain text.
func (w *world) countRequests(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, o := range w.others {
		if strings.Contains(o, text) {
			n++
		}
	}
	return n
}

// RoundTrip takes a request to its node.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	node := w.nodes[r.URL.Host]
	known := w.view
	w.carried = append(w.carried, r.URL.Scheme+"://"+r.URL.Host+r.URL.Path+" "+r.Header.Get("Authorization"))
	if w.refuse != nil {
		if resp := w.refuse(r); resp != nil {
			w.others = append(w.others, r.Method+" "+r.URL.Host+r.URL.Path)
			w.mu.Unlock()
			return resp, nil
		}
	}
	if !strings.HasSuffix(r.URL.Path, "/batch") {
		w.others = append(w.others, r.Method+" "+r.URL.Host+r.URL.Path)
	}
	w.mu.Unlock()
	if node == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
	}
	if strings.HasSuffix(r.URL.Path, "/batch") {
		return w.batch(r, node, body)
	}
	if err := w.failure(node); err != nil {
		return nil, err
	}
	switch r.URL.Path {
	case "/v1/map":
		text, err := json.Marshal(known)
		if err != nil {
			return nil, err
		}
		return respond(200, string(text)), nil
	case "/readyz":
		return respond(200, fmt.Sprintf(`{"cluster_id":%q,"node":%q}`, node.cluster, node.id)), nil
	}
	return respond(200, `{"id":"alone","revision":8}`), nil
}

func (w *world) failure(node *worldNode) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return node.down
}

func (w *world) batch(r *http.Request, node *worldNode, body []byte) (*http.Response, error) {
	b := &sentBatch{host: r.URL.Host, text: string(body)}
	for line := range bytes.Lines(body) {
		var l sentLine
		assert.Equal(w.t, json.Unmarshal(line, &l), nil, "line %q", line)
		b.lines = append(b.lines, l)
	}
	w.mu.Lock()
	w.batches = append(w.batches, b)
	hold := node.hold
	if node.held != nil && !node.held(b) {
		hold = nil
	}
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if err := w.failure(node); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if node.refuse != nil {
		if resp := node.refuse(b); resp != nil {
			return resp, nil
		}
	}
	var out strings.Builder
	for i, l := range b.lines {
		text := created(i, l.ID)
		if node.answer != nil {
			text = node.answer(b, i)
		}
		out.WriteString(text + "\n")
	}
	resp := respond(200, out.String())
	version := node.version
	if version == "" {
		version = w.view.Version
	}
	resp.Header.Set("Belfry-Map", version)
	return resp, nil
}

func respond(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// idIn returns the n-th id in the shard with this number, from 1.
func (w *world) idIn(shard int, n int) string {
	for i := 0; ; i++ {
		id := fmt.Sprint("t", i)
		s := w.view.Shards[shard-1].Slots[0]
		if at := uint32(contract.SlotOf(w.view.Namespace, id)); at < s.First || at >= s.End {
			continue
		}
		if n--; n < 0 {
			return id
		}
	}
}
