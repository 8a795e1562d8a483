package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// node is one node, called by the contract and not through a client library. The tests send requests that no library
// would send, and observe answers that a library would retry.
type node struct {
	name, url string
	callers   *http.Client
}

// object is a JSON object to send.
type object map[string]any

// refusal is an answer with a status other than 2xx.
type refusal struct {
	Status    int    `json:"status"`
	Type      string `json:"type"`
	Detail    string `json:"detail"`
	Field     string `json:"field"`
	Committed string `json:"committed"`
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%d %s (field %q, committed %q)", r.Status, r.Detail, r.Field, r.Committed)
}

// call makes one request and decodes its answer into out, unless out is nil. A refusal is returned as a *refusal.
func (n node) call(ctx context.Context, method, path string, body, out any) (status int, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	if body == nil {
		data = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.callers.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, readAnswer(resp, out)
}

func readAnswer(resp *http.Response, out any) error {
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode > 299 {
		r := &refusal{Status: resp.StatusCode}
		if json.Unmarshal(answer, r) != nil {
			r.Detail = string(answer)
		}
		return r
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func queuePath(queue string) string { return "/v1/queues/" + url.PathEscape(queue) }

// job is a task as a node answers it. A leased task has its receipt too.
type job struct {
	ID        string            `json:"id"`
	FireAt    time.Time         `json:"fire_at"`
	Payload   json.RawMessage   `json:"payload"`
	State     string            `json:"state"`
	Attempts  int               `json:"attempts"`
	LastError string            `json:"last_error"`
	Shard     uint32            `json:"shard"`
	Labels    map[string]string `json:"labels"`
	History   []past            `json:"history"`

	Receipt     string    `json:"receipt"`
	Attempt     int       `json:"attempt"`
	WebhookID   string    `json:"webhook_id"`
	Fence       uint64    `json:"fence"`
	LeaseEndsAt time.Time `json:"lease_ends_at"`
}

// past is an attempt in a task's history.
type past struct {
	Attempt   int       `json:"attempt"`
	Fence     uint64    `json:"fence"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Node      string    `json:"node"`
	Error     string    `json:"error"`
}

func (n node) get(ctx context.Context, id string) (job, error) {
	var j job
	_, err := n.call(ctx, http.MethodGet, "/v1/tasks/"+url.PathEscape(id), nil, &j)
	return j, err
}

// list returns all tasks that the query selects.
func (n node) list(ctx context.Context, query url.Values) ([]job, error) {
	var all []job
	query = cloneQuery(query)
	query.Set("limit", "1000")
	for {
		var page struct {
			Tasks []job  `json:"tasks"`
			Next  string `json:"next_cursor"`
		}
		if _, err := n.call(ctx, http.MethodGet, "/v1/tasks?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tasks...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

func cloneQuery(query url.Values) url.Values {
	c := url.Values{}
	for name, values := range query {
		c[name] = values
	}
	return c
}

// lease makes one lease call.
func (n node) lease(ctx context.Context, queue string, most int, wait, length time.Duration) ([]job, error) {
	var answer struct {
		Tasks []job `json:"tasks"`
	}
	ask := object{"max": most, "wait": wait.String(), "lease": length.String()}
	_, err := n.call(ctx, http.MethodPost, queuePath(queue)+"/lease", ask, &answer)
	return answer.Tasks, err
}

// settled is the result for one receipt.
type settled struct {
	Receipt string `json:"receipt"`
	ID      string `json:"id"`
	Status  int    `json:"status"`
}

func (n node) settle(ctx context.Context, queue string, ask object) ([]settled, error) {
	var answer struct {
		Results []settled `json:"results"`
	}
	_, err := n.call(ctx, http.MethodPost, queuePath(queue)+"/settle", ask, &answer)
	return answer.Results, err
}

// The four verbs of a settle, for one receipt. A nack with an empty delay takes the backoff.

func ack(receipt string) object     { return object{"ack": []string{receipt}} }
func release(receipt string) object { return object{"release": []string{receipt}} }

func nack(receipt, delay string) object {
	line := object{"receipt": receipt, "reason": "not today"}
	if delay != "" {
		line["delay"] = delay
	}
	return object{"nack": []object{line}}
}

func extend(receipt string, length time.Duration) object {
	return object{"extend": []object{{"receipt": receipt, "lease": length.String()}}}
}
