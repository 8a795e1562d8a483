package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// readAnswer returns a function that reads an answer's body with take.
func readAnswer(take func(*contract.Reader) error) func(reply) error {
	return func(a reply) error {
		data, err := io.ReadAll(a.body)
		if err != nil {
			return err
		}
		return whole(data, take)
	}
}

// whole reads a text that take must consume from beginning to end.
func whole(text []byte, take func(*contract.Reader) error) error {
	r := contract.NewReader(text)
	err := take(r)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return &garbledError{err}
	}
	return nil
}

// member is a member of an answer's object, and the place for its value: a pointer, a function that reads the value, or
// nil to skip it.
type member struct {
	field contract.Field
	place any
}

// readObject reads the value of the member name, an object of an answer. Members in the order of the list are read
// fastest, so each list has the service's order, and rare members last. The list stays on the caller's stack.
func readObject(r *contract.Reader, name string, list []member) error {
	next := 0
	return r.Known(name, list[0].field, func(f contract.Field) (contract.Field, error) {
		for range list {
			m := list[next]
			if next++; next == len(list) {
				next = 0
			}
			if m.field == f {
				return list[next].field, readValue(r, f.String(), m.place)
			}
		}
		return f, r.Skip()
	})
}

// readValue reads the value of the member name into its place.
func readValue(r *contract.Reader, name string, place any) (err error) {
	switch p := place.(type) {
	case *string:
		return readText(r, name, p)
	case *uint64:
		*p, err = r.Uint(name, math.MaxUint64)
	case *uint32:
		var n uint64
		n, err = r.Uint(name, math.MaxUint32)
		*p = uint32(n)
	case *int:
		var n int64
		n, err = r.Whole(name, math.MinInt, math.MaxInt)
		*p = int(n)
	case *float64:
		*p, err = r.Number(name, 0, math.MaxFloat64)
	case *bool:
		*p, err = r.Bool(name)
	case *time.Time:
		return readTime(r, name, p)
	case **time.Time:
		*p = new(time.Time)
		return readTime(r, name, *p)
	case *time.Duration:
		*p, err = r.Duration(name)
	case *json.RawMessage:
		*p, err = r.Value()
		*p = bytes.Clone(*p)
	case *State:
		return readState(r, name, p)
	case *Outcome:
		return readText(r, name, p)
	case func() error:
		return p()
	case nil:
		return r.Skip()
	default:
		return readRare(r, name, place)
	}
	return err
}

// readRare is readValue for the places that most answers do not have.
func readRare(r *contract.Reader, name string, place any) error {
	switch p := place.(type) {
	case *[]byte:
		return readBytes(r, name, p)
	case *map[string]string:
		return readMap(r, name, p)
	case *map[string]int:
		return readNumbers(r, name, p)
	case *[]string:
		return readList(r, name, p, func(text *string) error { return readText(r, name, text) })
	case *[]time.Duration:
		return readList(r, name, p, func(d *time.Duration) (err error) {
			*d, err = r.Duration(name)
			return err
		})
	case **Target:
		*p = new(Target)
		return (*p).read(r)
	case **Retry:
		*p = new(Retry)
		return (*p).read(r)
	case **Window:
		*p = new(Window)
		return (*p).read(r)
	case **QueueCounts:
		*p = new(QueueCounts)
		return (*p).read(r)
	case **Error:
		*p = new(Error)
		return (*p).read(r)
	case *[]Past:
		return readList(r, name, p, func(past *Past) error { return past.read(r) })
	case **Task:
		return readProblemTask(r, p)
	case **Schedule:
		return readProblemSchedule(r, p)
	case *limitText:
		return p.read(r, name)
	}
	panic("client: the place for " + name + " has a type that readRare does not know")
}

// readText reads a string and copies it, so that the result outlives the text.
func readText[T ~string](r *contract.Reader, name string, out *T) error {
	text, err := r.Text(name)
	*out = T(strings.Clone(text))
	return err
}

func readTime(r *contract.Reader, name string, out *time.Time) error {
	ms, err := r.Instant(name)
	*out = time.UnixMilli(ms).UTC()
	return err
}

func readBytes(r *contract.Reader, name string, out *[]byte) error {
	text, err := r.TextBytes(name, "a string of base64")
	if err != nil {
		return err
	}
	if *out, err = base64.StdEncoding.AppendDecode(nil, text); err != nil {
		return errors.New(name + " is not base64")
	}
	return nil
}

// readState reads a state. The known states need no allocation.
func readState(r *contract.Reader, name string, out *State) error {
	text, err := r.TextBytes(name, "a string")
	if *out = stateOf(text); *out == "" {
		*out = State(text)
	}
	return err
}

func readMap(r *contract.Reader, name string, out *map[string]string) error {
	*out = map[string]string{}
	return r.Each(name, func(key []byte) (err error) {
		value := ""
		if !r.Null() {
			err = readText(r, name, &value)
		}
		(*out)[string(key)] = value
		return err
	})
}

// readList reads an array, each element with read.
func readList[T any](r *contract.Reader, name string, out *[]T, read func(*T) error) error {
	*out = nil
	return r.Array(name, func(int) error {
		*out = append(*out, *new(T))
		return read(&(*out)[len(*out)-1])
	})
}

func (t *Task) read(r *contract.Reader) error {
	var l Leased
	err := l.read(r)
	*t = l.Task
	return err
}

// read reads a task, and its lease if it has one.
func (l *Leased) read(r *contract.Reader) error {
	*l = Leased{}
	t := &l.Task
	return readObject(r, "task", []member{
		{contract.ID, &t.ID}, {contract.Queue, &t.Queue}, {contract.FireAt, &t.FireAt}, {contract.Payload, &t.Payload},
		{contract.ContentType, &t.ContentType}, {contract.State, &t.State}, {contract.Attempts, &t.Attempts},
		{contract.LastError, &t.LastError}, {contract.Revision, &t.Revision}, {contract.Shard, &t.Shard},
		{contract.CreatedAt, &t.CreatedAt}, {contract.WebhookID, &t.WebhookID},
		{contract.LeaseEndsAt, &t.LeaseEndsAt}, {contract.Receipt, &l.Receipt}, {contract.Attempt, &l.Attempt},
		{contract.Fence, &l.Fence},

		{contract.NextAttemptAt, &t.NextAttemptAt}, {contract.PayloadBase64, &t.PayloadBytes},
		{contract.Delay, &t.Delay}, {contract.ExpiresAfter, &t.ExpiresAfter}, {contract.Target, &t.Target},
		{contract.Retry, &t.Retry}, {contract.Labels, &t.Labels}, {contract.Outcome, &t.Outcome},
		{contract.Window, &t.Window}, {contract.WaitsFor, &t.WaitsFor},
		{contract.Group, &t.Group}, {contract.Priority, &t.Priority},
		{contract.Previous, &t.Previous}, {contract.History, &t.History}, {contract.Schedule, &t.Schedule},
		{contract.Occurrence, &t.Occurrence}, {contract.Scheduled, &t.Scheduled},
	})
}

func (p *Past) read(r *contract.Reader) error {
	return readObject(r, "history", []member{
		{contract.Attempt, &p.Attempt}, {contract.Fence, &p.Fence}, {contract.StartedAt, &p.StartedAt},
		{contract.EndedAt, &p.EndedAt}, {contract.Node, &p.Node}, {contract.Error, &p.Error},
	})
}

func (t *Target) read(r *contract.Reader) error {
	return readObject(r, "target", []member{
		{contract.URL, &t.URL}, {contract.Headers, &t.Headers}, {contract.Timeout, &t.Timeout},
	})
}

func (r *Retry) read(in *contract.Reader) error {
	return readObject(in, "retry", []member{
		{contract.MaxAttempts, &r.MaxAttempts}, {contract.MinBackoff, &r.MinBackoff},
		{contract.MaxBackoff, &r.MaxBackoff}, {contract.Delays, &r.Delays},
	})
}

func (q *Queue) read(r *contract.Reader) error {
	*q = Queue{}
	return readObject(r, "queue", []member{
		{contract.Queue, &q.Name}, {contract.Target, &q.Target}, {contract.Retry, &q.Retry},
		{contract.MaxInFlight, &q.MaxInFlight}, {contract.MaxPerSecond, &q.MaxPerSecond},
		{contract.BatchMax, &q.BatchMax}, {contract.Paused, &q.Paused}, {contract.KeepDone, &q.KeepDone},
		{contract.KeepDead, &q.KeepDead}, {contract.Signing, func() error {
			return readObject(r, "signing", []member{{contract.Secrets, &q.Secrets}})
		}},
		{contract.Window, &q.Window}, {contract.WindowOpen, &q.WindowOpen}, {contract.WindowOpensAt, &q.WindowOpensAt},
		{contract.GroupInFlight, &q.GroupInFlight}, {contract.FIFO, &q.FIFO}, {contract.Fair, &q.Fair},
		{contract.GroupWeights, &q.GroupWeights}, {contract.Counts, &q.Counts},
		{contract.Broken, func() error {
			return readList(r, "broken", &q.Broken, func(b *BrokenReceiver) error {
				return readObject(r, "broken", b.members())
			})
		}},
	})
}

func (b *BrokenReceiver) members() []member {
	return []member{
		{contract.Receiver, &b.Receiver}, {contract.Path, &b.Path}, {contract.Since, &b.Since},
		{contract.LastError, &b.LastError}, {contract.Waiting, &b.Waiting},
	}
}

func (c *QueueCounts) read(r *contract.Reader) error { return readObject(r, "counts", c.members()) }

func (c *QueueCounts) members() []member {
	return []member{
		{contract.Scheduled, &c.Scheduled}, {contract.Ready, &c.Ready}, {contract.Firing, &c.Firing},
		{contract.Leased, &c.Leased}, {contract.Retrying, &c.Retrying}, {contract.Delivered, &c.Delivered},
		{contract.Dead, &c.Dead}, {contract.Cancelled, &c.Cancelled}, {contract.Due1m, &c.Due1m},
		{contract.Due1h, &c.Due1h}, {contract.Due1d, &c.Due1d}, {contract.OldestOverdue, &c.OldestOverdue},
	}
}

// readPage reads a page of a list: the named member, and the cursor of the next page, which is empty on the last one.
func readPage[T any](list contract.Field, items *[]T, next *string, read func(*T, *contract.Reader) error,
) func(reply) error {
	return readAnswer(func(r *contract.Reader) error {
		*next = ""
		return readObject(r, "page", []member{
			{list, func() error {
				return readList(r, list.String(), items, func(item *T) error { return read(item, r) })
			}},
			{contract.NextCursor, next},
		})
	})
}
