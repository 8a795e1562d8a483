package client

import (
	"encoding/base64"
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

// readText reads a string and copies it, so that the result outlives the text.
func readText[T ~string](r *contract.Reader, f contract.Field, out *T) error {
	text, err := r.Text(f.String())
	*out = T(strings.Clone(text))
	return err
}

func readNumber[T int | uint32 | uint64](r *contract.Reader, f contract.Field, out *T) error {
	switch out := any(out).(type) {
	case *int:
		n, err := r.Whole(f.String(), math.MinInt, math.MaxInt)
		*out = int(n)
		return err
	case *uint32:
		n, err := r.Uint(f.String(), math.MaxUint32)
		*out = uint32(n)
		return err
	}
	n, err := r.Uint(f.String(), math.MaxUint64)
	*out = T(n)
	return err
}

func readTime(r *contract.Reader, f contract.Field, out *time.Time) error {
	ms, err := r.Instant(f.String())
	*out = time.UnixMilli(ms).UTC()
	return err
}

func readSpan(r *contract.Reader, f contract.Field, out *time.Duration) (err error) {
	*out, err = r.Duration(f.String())
	return err
}

func readBytes(r *contract.Reader, f contract.Field, out *[]byte) error {
	text, err := r.TextBytes(f.String(), "a string of base64")
	if err != nil {
		return err
	}
	if *out, err = base64.StdEncoding.AppendDecode(nil, text); err != nil {
		return errors.New(f.String() + " is not base64")
	}
	return nil
}

// readState reads a state. The known states need no allocation.
func readState(r *contract.Reader, f contract.Field, out *State) error {
	text, err := r.TextBytes(f.String(), "a string")
	if *out = stateOf(text); *out == "" {
		*out = State(text)
	}
	return err
}

func readMap(r *contract.Reader, f contract.Field, out *map[string]string) error {
	*out = map[string]string{}
	return r.Each(f.String(), func(name []byte) error {
		key, value := string(name), ""
		if r.Null() {
			(*out)[key] = value
			return nil
		}
		err := readText(r, f, &value)
		(*out)[key] = value
		return err
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
	return r.Known("task", func(f contract.Field) error {
		switch f {
		case contract.ID:
			return readText(r, f, &t.ID)
		case contract.Queue:
			return readText(r, f, &t.Queue)
		case contract.FireAt:
			return readTime(r, f, &t.FireAt)
		case contract.Payload:
			text, err := r.Value()
			t.Payload = append(t.Payload[:0], text...)
			return err
		case contract.ContentType:
			return readText(r, f, &t.ContentType)
		case contract.State:
			return readState(r, f, &t.State)
		case contract.Attempts:
			return readNumber(r, f, &t.Attempts)
		case contract.Revision:
			return readNumber(r, f, &t.Revision)
		case contract.Shard:
			return readNumber(r, f, &t.Shard)
		case contract.CreatedAt:
			return readTime(r, f, &t.CreatedAt)
		case contract.WebhookID:
			return readText(r, f, &t.WebhookID)
		case contract.LeaseEndsAt:
			return readTime(r, f, &t.LeaseEndsAt)
		case contract.Receipt:
			return readText(r, f, &l.Receipt)
		case contract.Attempt:
			return readNumber(r, f, &l.Attempt)
		case contract.Fence:
			return readNumber(r, f, &l.Fence)
		}
		return t.readRare(r, f)
	})
}

// readRare reads a member that only some tasks have, and skips unknown ones.
func (t *Task) readRare(r *contract.Reader, f contract.Field) error {
	switch f {
	case contract.PayloadBase64:
		return readBytes(r, f, &t.PayloadBytes)
	case contract.Delay:
		return readSpan(r, f, &t.Delay)
	case contract.ExpiresAfter:
		return readSpan(r, f, &t.ExpiresAfter)
	case contract.NextAttemptAt:
		return readTime(r, f, &t.NextAttemptAt)
	case contract.LastError:
		return readText(r, f, &t.LastError)
	case contract.Outcome:
		return readText(r, f, &t.Outcome)
	case contract.Previous:
		return readState(r, f, &t.Previous)
	case contract.Labels:
		return readMap(r, f, &t.Labels)
	case contract.History:
		return readList(r, f, &t.History, (*Past).read)
	case contract.Target:
		t.Target = new(Target)
		return t.Target.read(r)
	case contract.Retry:
		t.Retry = new(Retry)
		return t.Retry.read(r)
	}
	return r.Skip()
}

// readList reads an array of objects, each with read.
func readList[T any](r *contract.Reader, f contract.Field, out *[]T, read func(*T, *contract.Reader) error) error {
	*out = nil
	return r.Array(f.String(), func(int) error {
		*out = append(*out, *new(T))
		return read(&(*out)[len(*out)-1], r)
	})
}

func (p *Past) read(r *contract.Reader) error {
	return r.Known("history", func(f contract.Field) error {
		switch f {
		case contract.Attempt:
			return readNumber(r, f, &p.Attempt)
		case contract.Fence:
			return readNumber(r, f, &p.Fence)
		case contract.StartedAt:
			return readTime(r, f, &p.StartedAt)
		case contract.EndedAt:
			return readTime(r, f, &p.EndedAt)
		case contract.Node:
			return readText(r, f, &p.Node)
		case contract.Error:
			return readText(r, f, &p.Error)
		}
		return r.Skip()
	})
}

func (t *Target) read(r *contract.Reader) error {
	return r.Known("target", func(f contract.Field) error {
		switch f {
		case contract.URL:
			return readText(r, f, &t.URL)
		case contract.Headers:
			return readMap(r, f, &t.Headers)
		case contract.Timeout:
			return readSpan(r, f, &t.Timeout)
		}
		return r.Skip()
	})
}

func (r *Retry) read(in *contract.Reader) error {
	return in.Known("retry", func(f contract.Field) error {
		switch f {
		case contract.MaxAttempts:
			return readNumber(in, f, &r.MaxAttempts)
		case contract.MinBackoff:
			return readSpan(in, f, &r.MinBackoff)
		case contract.MaxBackoff:
			return readSpan(in, f, &r.MaxBackoff)
		case contract.Delays:
			r.Delays = nil
			return in.Array(f.String(), func(int) error {
				r.Delays = append(r.Delays, 0)
				return readSpan(in, f, &r.Delays[len(r.Delays)-1])
			})
		}
		return in.Skip()
	})
}

func (q *Queue) read(r *contract.Reader) error {
	*q = Queue{}
	return r.Known("queue", func(f contract.Field) (err error) {
		switch f {
		case contract.Queue:
			return readText(r, f, &q.Name)
		case contract.Target:
			q.Target = new(Target)
			return q.Target.read(r)
		case contract.Retry:
			q.Retry = new(Retry)
			return q.Retry.read(r)
		case contract.MaxInFlight:
			return readNumber(r, f, &q.MaxInFlight)
		case contract.MaxPerSecond:
			q.MaxPerSecond, err = r.Number(f.String(), 0, math.MaxFloat64)
			return err
		case contract.BatchMax:
			return readNumber(r, f, &q.BatchMax)
		case contract.Paused:
			q.Paused, err = r.Bool(f.String())
			return err
		case contract.KeepDone:
			return readSpan(r, f, &q.KeepDone)
		case contract.KeepDead:
			return readSpan(r, f, &q.KeepDead)
		case contract.Signing:
			return q.readSigning(r)
		case contract.Counts:
			q.Counts = new(QueueCounts)
			return q.Counts.read(r)
		}
		return r.Skip()
	})
}

func (q *Queue) readSigning(r *contract.Reader) error {
	return r.Known("signing", func(f contract.Field) error {
		if f != contract.Secrets {
			return r.Skip()
		}
		return r.Array(f.String(), func(int) error {
			q.Secrets = append(q.Secrets, "")
			return readText(r, f, &q.Secrets[len(q.Secrets)-1])
		})
	})
}

func (c *QueueCounts) read(r *contract.Reader) error {
	return r.Known("counts", func(f contract.Field) error {
		if f == contract.OldestOverdue {
			c.OldestOverdue = new(time.Time)
			return readTime(r, f, c.OldestOverdue)
		}
		if n := c.count(f); n != nil {
			return readNumber(r, f, n)
		}
		return r.Skip()
	})
}

// count returns a pointer to the number of a member, or nil if f is no count.
func (c *QueueCounts) count(f contract.Field) *uint64 {
	switch f {
	case contract.Scheduled:
		return &c.Scheduled
	case contract.Ready:
		return &c.Ready
	case contract.Firing:
		return &c.Firing
	case contract.Leased:
		return &c.Leased
	case contract.Retrying:
		return &c.Retrying
	case contract.Delivered:
		return &c.Delivered
	case contract.Dead:
		return &c.Dead
	case contract.Cancelled:
		return &c.Cancelled
	case contract.Due1m:
		return &c.Due1m
	case contract.Due1h:
		return &c.Due1h
	case contract.Due1d:
		return &c.Due1d
	}
	return nil
}

// readPage reads a page of a list: the named member, and the cursor of the next page, which is empty on the last one.
func readPage[T any](list contract.Field, items *[]T, next *string, read func(*T, *contract.Reader) error,
) func(reply) error {
	return readAnswer(func(r *contract.Reader) error {
		*next = ""
		return r.Known("page", func(f contract.Field) error {
			switch f {
			case list:
				return readList(r, f, items, read)
			case contract.NextCursor:
				return readText(r, f, next)
			}
			return r.Skip()
		})
	})
}
