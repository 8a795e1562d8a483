package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Settlement says what becomes of leases, by their receipts. It is carried out in the order of the fields.
type Settlement struct {
	Ack     []string // done: delivered
	Nack    []Nack   // failed: retried, or a dead letter after the last attempt
	Extend  []Extend
	Release []string // given back: due at once, not counted as an attempt
}

// Nack ends a lease whose task could not be done.
type Nack struct {
	Receipt string
	Delay   *time.Duration // when to retry; nil: the backoff decides
	Reason  string         // becomes the task's last error; at most 512 bytes
}

// Extend moves the end of a lease.
type Extend struct {
	Receipt string
	Lease   time.Duration // from now
}

// Settled is what became of one receipt.
type Settled struct {
	Receipt string
	ID      string // the task's; empty if it is not known
	Status  int    // the service's; 0: it was not answered
	Err     error  // nil: it was done. ErrConflict: the lease had ended. ErrNotFound: the task is gone
}

// Settle ends or extends any number of leases, and tells what became of each, in the order of the fields. Those that
// met a passing trouble are repeated; so one that was done in a try whose answer was lost may be told as ErrConflict.
func (c *Client) Settle(ctx context.Context, queue string, s Settlement) []Settled {
	lines := s.lines()
	for chunk := range slices.Chunk(sendable(lines), maxChunkLines) {
		c.sendUntilAnswered(ctx, chunk, func(ctx context.Context, lines []*line) error {
			return c.sendReceipts(ctx, queue, lines)
		})
	}
	out := make([]Settled, len(lines))
	for i, l := range lines {
		out[i] = Settled{Receipt: l.receipt, ID: l.result.ID, Status: l.result.Status, Err: l.result.Err}
	}
	return out
}

var settleOrder = []string{"ack", "nack", "extend", "release"}

// lines are the receipts, each with its place in the body: the verb is the list, the data is the entry.
func (s Settlement) lines() []*line {
	var lines []*line
	add := func(verb, receipt string, entry any) {
		data, err := json.Marshal(entry)
		l := &line{data: data, verb: verb, receipt: receipt}
		if err != nil {
			l.settle(l.result, &unsendableError{err})
		}
		lines = append(lines, l)
	}
	for _, receipt := range s.Ack {
		add("ack", receipt, receipt)
	}
	for _, n := range s.Nack {
		add("nack", n.Receipt, struct {
			Receipt string    `json:"receipt"`
			Delay   *duration `json:"delay,omitempty"`
			Reason  string    `json:"reason,omitempty"`
		}{n.Receipt, (*duration)(n.Delay), n.Reason})
	}
	for _, e := range s.Extend {
		add("extend", e.Receipt, struct {
			Receipt string   `json:"receipt"`
			Lease   duration `json:"lease"`
		}{e.Receipt, duration(e.Lease)})
	}
	for _, receipt := range s.Release {
		add("release", receipt, receipt)
	}
	return lines
}

func sendable(lines []*line) []*line {
	var todo []*line
	for _, l := range lines {
		if l.result.Err == nil {
			todo = append(todo, l)
		}
	}
	return todo
}

func (c *Client) sendReceipts(ctx context.Context, queue string, lines []*line) error {
	// Without a key: the service has no use for it, and net/http would take it for a leave to send the call again by
	// itself, so that the results would hide what the first sending did.
	call := call{method: http.MethodPost, path: queuePath(queue) + "/settle", body: settleBody(lines),
		contentType: jsonType}
	return c.do(ctx, call, func(a reply) error { return readSettled(a.body, lines) })
}

// settleBody lists the entries by their verbs. Lines come in the order of the verbs, so results do in that of lines.
func settleBody(lines []*line) []byte {
	lists := map[string][][]byte{}
	for _, l := range lines {
		lists[l.verb] = append(lists[l.verb], l.data)
	}
	var members [][]byte
	for _, verb := range settleOrder {
		if entries := lists[verb]; entries != nil {
			members = append(members, fmt.Appendf(nil, "%q:[%s]", verb, bytes.Join(entries, []byte(","))))
		}
	}
	return fmt.Appendf(nil, "{%s}", bytes.Join(members, []byte(",")))
}

func readSettled(r io.Reader, lines []*line) error {
	var answers struct {
		Results []struct {
			ID      string   `json:"id"`
			Status  int      `json:"status"`
			Problem *problem `json:"problem"`
		} `json:"results"`
	}
	if err := readJSON(&answers)(reply{body: r}); err != nil {
		return err
	}
	if len(answers.Results) != len(lines) {
		return &garbledError{fmt.Errorf("%d results for %d receipts", len(answers.Results), len(lines))}
	}
	for i, w := range answers.Results {
		lines[i].settle(Result{ID: w.ID, Status: w.Status}, lineError(w.Status, w.Problem))
	}
	return nil
}
