package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// AuditRecord is one call of an operator, one refusal, or a count of refusals.
type AuditRecord struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Node   string    `json:"node"` // id of the node that took the call
	Kind   string    `json:"kind"` // change or refusal
	Caller struct {
		Kind string `json:"kind"`
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"caller"` // empty: no credentials were accepted
	From    string            `json:"from"`   // IP address; of a count perhaps a /64
	Method  string            `json:"method"` // "*" in a count of several
	Route   string            `json:"route"`  // "*" in a count of several
	Object  map[string]string `json:"object"`
	Fields  []string          `json:"fields"` // names of the fields and parameters given
	Status  int               `json:"status"`
	Problem string            `json:"problem"` // last part of the problem's type
	Outcome string            `json:"outcome"` // of a change: begun, done, failed or unknown
	Begun   time.Time         `json:"begun"`   // start of a backup, in both of its records
	Bytes   int64             `json:"bytes"`   // of a backup, in its second record
	Request string            `json:"request"` // the caller's id of the call
	Count   int               `json:"count"`   // refusals that the record stands for; 0: it is no count
	First   time.Time         `json:"first"`   // of the first of them

	line json.RawMessage // as the service has it
}

// MarshalJSON writes the record as the service does.
func (r AuditRecord) MarshalJSON() ([]byte, error) { return r.line, nil }

// AuditQuery selects records.
type AuditQuery struct {
	After string    // Next of an earlier page; empty: from the oldest
	Since time.Time // only records of this instant or later; zero: all
	Limit int       // 0: 100
}

// AuditPage is some records of the audit logs of all nodes, oldest first.
type AuditPage struct {
	Records []AuditRecord
	Next    string
	More    bool   // further records are there
	Lost    uint64 // records that could not be written, or were removed with an old file
	Missing []AuditMissing
}

// AuditMissing is a node that did not answer. Its records come after Next once it does.
type AuditMissing struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// Audit returns records of the audit logs of all nodes. It needs the role admin for all namespaces.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (*AuditPage, error) {
	values := url.Values{}
	if q.After != "" {
		values.Set("after", q.After)
	}
	if !q.Since.IsZero() {
		values.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	page := new(AuditPage)
	path := "/v1/audit?" + values.Encode()
	if err := c.conn.do(ctx, call{method: http.MethodGet, path: path}, page.read); err != nil {
		return nil, err
	}
	return page, nil
}

// read reads the lines of an answer.
func (p *AuditPage) read(r reply) error {
	*p = AuditPage{}
	data, err := io.ReadAll(r.body)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	for _, line := range lines[:len(lines)-1] {
		var record AuditRecord
		if err := json.Unmarshal(line, &record); err != nil {
			return &garbledError{err}
		}
		record.line = bytes.Clone(line)
		p.Records = append(p.Records, record)
	}
	end := struct {
		Next    *string        `json:"next_cursor"`
		More    bool           `json:"more"`
		Lost    uint64         `json:"lost"`
		Missing []AuditMissing `json:"missing"`
	}{}
	if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
		return &garbledError{err}
	}
	if end.Next == nil {
		return &garbledError{errors.New("the answer has no end")}
	}
	p.Next, p.More, p.Lost, p.Missing = *end.Next, end.More, end.Lost, end.Missing
	return nil
}
