package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Tasks that come by the thousand are read by hand, for the same reason as calls are written so. What is rare in a task
// is left to encoding/json.

var (
	errNotObject = errors.New("it is not an object")
	errMalformed = errors.New("it is not JSON")
	errShape     = errors.New("it has not the shape that it should have")
)

// members hands each member of the object at the beginning of text to take, with the text of its value. It returns what
// follows the object.
func members(text []byte, take func(name, value []byte) error) (rest []byte, err error) {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return nil, errNotObject
	}
	if i = skipSpace(text, i+1); i < len(text) && text[i] == '}' {
		return text[i+1:], nil
	}
	for {
		begin := i
		if i = skipName(text, begin); i < 0 {
			return nil, errMalformed
		}
		name := text[begin+1:]
		// Names that are known have no escapes, so that one with them is none of those however it is cut.
		name = name[:bytes.IndexByte(name, '"')]
		begin = skipSpace(text, i)
		if i = skipValue(text, begin); i < 0 {
			return nil, errMalformed
		}
		if err := take(name, text[begin:i]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		i = skipSpace(text, i)
		switch {
		case i < len(text) && text[i] == '}':
			return text[i+1:], nil
		case i == len(text) || text[i] != ',':
			return nil, errMalformed
		}
		i = skipSpace(text, i+1)
	}
}

// whole makes sure that nothing but white space follows an object.
func whole(rest []byte, err error) error {
	if err == nil && skipSpace(rest, 0) != len(rest) {
		return errMalformed
	}
	return err
}

// elements hands each element of an array to take.
func elements(text []byte, take func(value []byte) error) error {
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '[' {
		return errors.New("it is not an array")
	}
	if i = skipSpace(text, i+1); i < len(text) && text[i] == ']' {
		return nil
	}
	for {
		begin := skipSpace(text, i)
		if i = skipValue(text, begin); i < 0 {
			return errMalformed
		}
		if err := take(text[begin:i]); err != nil {
			return err
		}
		i = skipSpace(text, i)
		switch {
		case i < len(text) && text[i] == ']':
			return nil
		case i == len(text) || text[i] != ',':
			return errMalformed
		}
		i++
	}
}

// decodeText reads a string. Null is an empty one.
func decodeText(value []byte) (string, error) {
	if value[0] == '"' {
		inside := value[1 : len(value)-1]
		if slices.ContainsFunc(inside, func(c byte) bool { return c == '\\' || c >= utf8.RuneSelf }) {
			var text string // with escapes, or what may not be UTF-8
			err := decodeRest(value, &text)
			return text, err
		}
		return string(inside), nil
	}
	if isNull(value) {
		return "", nil
	}
	return "", errors.New("it is not a string")
}

func decodeBytes(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	return b, nil
}

// decodeRest reads a value that is rare enough to be left to encoding/json.
func decodeRest(value []byte, out any) error {
	if err := json.Unmarshal(value, out); err != nil {
		return errShape
	}
	return nil
}

func isNull(value []byte) bool { return string(value) == "null" }

// decodeInto reads a string that means a T. Null leaves it as it is.
func decodeInto[T any](out *T, value []byte, decode func(string) (T, error)) error {
	if isNull(value) {
		return nil
	}
	text, err := decodeText(value)
	if err != nil {
		return err
	}
	*out, err = decode(text)
	return err
}

func decodeInstant(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, errors.New("it is not an instant")
	}
	return at, nil
}

func decodeNumber[T int | uint32 | uint64](out *T, value []byte) error {
	if isNull(value) {
		return nil
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil || uint64(T(n)) != n {
		return errors.New("it is not a number of the range that it should be of")
	}
	*out = T(n)
	return nil
}

// decodeTask reads a task as the service writes it.
func decodeTask(text []byte, t *Task) error {
	var l Leased
	err := whole(decodeLeased(text, &l))
	*t = l.Task
	return err
}

// decodeLeased reads a task at the beginning of text, and the lease on it, if it has one. It returns what follows.
// Fields that are not known are passed over.
func decodeLeased(text []byte, l *Leased) (rest []byte, err error) {
	t := &l.Task
	return members(text, func(name, value []byte) (err error) {
		switch string(name) {
		case "id":
			t.ID, err = decodeText(value)
		case "queue":
			t.Queue, err = decodeText(value)
		case "fire_at":
			err = decodeInto(&t.FireAt, value, decodeInstant)
		case "payload":
			t.Payload = append(json.RawMessage(nil), value...)
		case "content_type":
			t.ContentType, err = decodeText(value)
		case "state":
			t.State, err = decodeState(value)
		case "attempts":
			err = decodeNumber(&t.Attempts, value)
		case "revision":
			err = decodeNumber(&t.Revision, value)
		case "shard":
			err = decodeNumber(&t.Shard, value)
		case "created_at":
			err = decodeInto(&t.CreatedAt, value, decodeInstant)
		case "webhook_id":
			t.WebhookID, err = decodeText(value)
		case "lease_ends_at":
			err = decodeInto(&t.LeaseEndsAt, value, decodeInstant)
		case "receipt":
			l.Receipt, err = decodeText(value)
		case "attempt":
			err = decodeNumber(&l.Attempt, value)
		case "fence":
			err = decodeNumber(&l.Fence, value)
		default:
			err = t.decodeRare(name, value)
		}
		return err
	})
}

// decodeRare reads what only some tasks have.
func (t *Task) decodeRare(name, value []byte) (err error) {
	switch string(name) {
	case "payload_base64":
		err = decodeInto(&t.PayloadBytes, value, decodeBytes)
	case "delay":
		err = decodeInto(&t.Delay, value, ParseDuration)
	case "expires_after":
		err = decodeInto(&t.ExpiresAfter, value, ParseDuration)
	case "next_attempt_at":
		err = decodeInto(&t.NextAttemptAt, value, decodeInstant)
	case "last_error":
		t.LastError, err = decodeText(value)
	case "outcome":
		var text string
		text, err = decodeText(value)
		t.Outcome = Outcome(text)
	case "previous":
		t.Previous, err = decodeState(value)
	case "labels":
		err = decodeRest(value, &t.Labels)
	case "history":
		err = decodeRest(value, &t.History)
	case "target":
		var w *wireTarget
		err = decodeRest(value, &w)
		t.Target = w.target()
	case "retry":
		var w *wireRetry
		err = decodeRest(value, &w)
		t.Retry = w.retry()
	}
	return err
}

// decodeState spares the known states a string of their own.
func decodeState(value []byte) (State, error) {
	if len(value) > 2 {
		if s := stateOf(value[1 : len(value)-1]); s != "" && value[0] == '"' {
			return s, nil
		}
	}
	text, err := decodeText(value)
	return State(text), err
}
