package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/internal/contract"
)

// Change is the effect of a call on a task.
type Change struct {
	ID       string
	Created  bool  // there was no task with this id, or a finished one
	Previous State // in Schedule: the state of the replaced task; empty: there was none
	Revision uint64
}

// Schedule stores the task, or atomically replaces the task with the same ID in any state: a delivered task is
// scheduled, and delivered, again. With IfAbsent it schedules only once. A task without an ID gets a new one.
func (c *Client) Schedule(ctx context.Context, task Task, opts ...Option) (Change, error) {
	o := gather(opts)
	if task.ID == "" && o.key == "" && !c.conn.cfg.SingleCalls {
		task.ID = newID()
	}
	if task.ID == "" || c.conn.single(&o) || breaksLine(task.Payload) {
		return c.conn.scheduleAlone(ctx, &task, &o)
	}
	w := c.conn.newWaiter("schedule", task.ID)
	data := c.conn.appendHead(w.line.data, "schedule", task.ID, &o)
	data, err := appendTask(data, &task)
	return c.conn.gathered(ctx, w, data, err)
}

// Cancel ends the task and returns the final outcome.
func (c *Client) Cancel(ctx context.Context, id string, opts ...Option) (Outcome, error) {
	o := gather(opts)
	if c.conn.single(&o) {
		return c.conn.cancelAlone(ctx, id, &o)
	}
	w := c.conn.newWaiter("cancel", id)
	w.line.data = append(c.conn.appendHead(w.line.data, "cancel", id, &o), "}\n"...)
	r, err := w.wait(ctx)
	return r.Outcome, err
}

// FireNow makes the task due now. A task that waits for its next attempt is attempted now.
func (c *Client) FireNow(ctx context.Context, id string, opts ...Option) (Change, error) {
	o := gather(opts)
	if c.conn.single(&o) {
		return c.conn.changeAlone(ctx, http.MethodPost, c.conn.path("tasks", id)+"/fire", id, nil, &o)
	}
	w := c.conn.newWaiter("fire", id)
	return c.conn.gathered(ctx, w, c.conn.appendHead(w.line.data, "fire", id, &o), nil)
}

// Touch restarts the task's delay from now, and changes its payload if touch says so.
func (c *Client) Touch(ctx context.Context, id string, touch Touch, opts ...Option) (Change, error) {
	o := gather(opts)
	if c.conn.single(&o) || touch.breaksLine() {
		fields, err := appendTouch(nil, &touch)
		if err != nil {
			return Change{}, fmt.Errorf("touch %s: %w", id, err)
		}
		return c.conn.changeAlone(ctx, http.MethodPost, c.conn.path("tasks", id)+"/touch", id, fields, &o)
	}
	w := c.conn.newWaiter("touch", id)
	data := c.conn.appendHead(w.line.data, "touch", id, &o)
	data, err := appendTouch(data, &touch)
	return c.conn.gathered(ctx, w, data, err)
}

// single reports whether a call is a request of its own.
func (c *conn) single(o *options) bool { return c.cfg.SingleCalls || o.whole != nil }

// gathered ends and sends a waiter's line, whose data lacks its end. err is the error of encoding the line.
func (c *conn) gathered(ctx context.Context, w *waiter, data []byte, err error) (Change, error) {
	if err == nil {
		err = checkLine(len(data) + len("}"))
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", w.line.verb, w.line.id, err)
		w.free()
		return Change{}, err
	}
	w.line.data = append(data, "}\n"...)
	r, err := w.wait(ctx)
	if err != nil {
		return Change{}, err
	}
	return Change{ID: r.ID, Created: r.Status == http.StatusCreated, Previous: r.Previous, Revision: r.Revision}, nil
}

const jsonType = "application/json"

// scheduleAlone schedules a task with a request of its own.
func (c *conn) scheduleAlone(ctx context.Context, task *Task, o *options) (Change, error) {
	method, path := http.MethodPut, c.path("tasks", task.ID)
	if task.ID == "" {
		method, path = http.MethodPost, c.root+"/tasks"
	}
	fields, err := appendTask(nil, task)
	if err != nil {
		return Change{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return c.changeAlone(ctx, method, path, task.ID, fields, o)
}

// changeAlone makes a changing call whose answer is the task.
func (c *conn) changeAlone(
	ctx context.Context, method, path, id string, fields []byte, o *options,
) (Change, error) {
	task := o.whole
	if task == nil {
		task = new(Task)
	}
	var change Change
	call := call{method: method, path: path, body: contract.Close(fields, 0), contentType: jsonType,
		header: c.header(o), about: id}
	err := c.do(ctx, call, func(a reply) error {
		if err := readAnswer(task.read)(a); err != nil {
			return err
		}
		change = Change{ID: task.ID, Created: a.status == http.StatusCreated, Previous: task.Previous,
			Revision: task.Revision}
		return nil
	})
	return change, err
}

func (c *conn) cancelAlone(ctx context.Context, id string, o *options) (Outcome, error) {
	var outcome Outcome
	call := call{method: http.MethodDelete, path: c.path("tasks", id), header: c.header(o), about: id}
	err := c.do(ctx, call, func(a reply) error {
		if err := readAnswer(outcome.read)(a); err != nil {
			return err
		}
		if o.whole != nil {
			*o.whole = Task{ID: id, Outcome: outcome, Revision: revisionOf(a.header)}
		}
		return nil
	})
	return outcome, err
}

// read reads the answer to a cancel.
func (o *Outcome) read(r *contract.Reader) error {
	return readObject(r, "outcome", []member{{contract.Outcome, o, 0}})
}

// revisionOf returns the revision in an answer's ETag, or 0 if there is none.
func revisionOf(h http.Header) uint64 {
	tag := strings.Trim(strings.TrimPrefix(h.Get("ETag"), "W/"), `"`)
	revision, err := strconv.ParseUint(tag, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// Patch changes a task without a begun attempt and returns the stored task. It returns ErrConflict for a task with one.
func (c *Client) Patch(ctx context.Context, id string, patch Patch, opts ...Option) (*Task, error) {
	fields, err := patch.fields()
	if err != nil {
		return nil, err
	}
	body, err := encode(fields, patch.Payload)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", id, err)
	}
	o := gather(opts)
	call := call{method: http.MethodPatch, path: c.conn.path("tasks", id), body: body, contentType: jsonType,
		header: c.conn.header(&o), about: id}
	return read[Task](ctx, c.conn, call)
}

// Get returns a task with its payload. Tombstones are included. Get sees every change that was acknowledged before the
// call.
func (c *Client) Get(ctx context.Context, id string) (*Task, error) {
	return read[Task](ctx, c.conn, call{method: http.MethodGet, path: c.conn.path("tasks", id), about: id})
}

// GetStale returns a task from the nearest replica, which may lag behind. It needs no leader.
func (c *Client) GetStale(ctx context.Context, id string) (*Task, error) {
	return read[Task](ctx, c.conn, call{method: http.MethodGet, path: c.conn.path("tasks", id) + "?consistency=stale"})
}

// Ready asks one of the addresses whether it serves: the node knows the map, and its replicas have caught up once.
func (c *Client) Ready(ctx context.Context) error {
	return c.conn.do(ctx, call{method: http.MethodGet, path: "/readyz"}, func(reply) error { return nil })
}

// encode returns v as a JSON object with the payload in it byte for byte.
func encode(v any, payload json.RawMessage) ([]byte, error) {
	fields, err := openObject(v)
	if err != nil {
		return nil, err
	}
	if fields, err = appendPayload(fields, payload); err != nil {
		return nil, err
	}
	return contract.Close(fields, 0), nil
}

// withMember returns v as a JSON object with one more member, whose value is in it byte for byte.
func withMember(v any, f contract.Field, value []byte) ([]byte, error) {
	fields, err := openObject(v)
	if err != nil {
		return nil, err
	}
	return contract.Close(append(contract.AppendName(fields, f), value...), 0), nil
}

// openObject returns v as a JSON object without its end. More members and contract.Close complete it.
func openObject(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || string(data) == "{}" {
		return nil, err
	}
	return data[:len(data)-1], nil
}
