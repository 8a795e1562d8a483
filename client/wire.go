package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// A type that travels has one list of its members, from which it is read and written.

// member is a member of an object, and the place for its value: a pointer, a function that reads the value, or nil to
// skip it.
type member struct {
	field    contract.Field
	place    any
	presence presence
}

// presence says when a member is written and read. The zero value is a member that is written unless its value is zero.
type presence uint8

const (
	always presence = 1 << iota // written with the zero value, too
	silent                      // never written
	rare                        // few answers have it
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

// readObject reads the value of the member name, an object of an answer. Members in the order of the list are read
// fastest. The list stays on the caller's stack.
func readObject(r *contract.Reader, name string, list []member) error {
	next := 0
	return r.Known(name, list[0].field, func(f contract.Field) (contract.Field, error) {
		for range list {
			m := list[next]
			if next++; next == len(list) {
				next = 0
			}
			if m.field == f {
				for range list {
					if list[next].presence&rare == 0 {
						break
					}
					next = (next + 1) % len(list)
				}
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
		return readObject(r, name, (*p).members())
	case **Retry:
		*p = new(Retry)
		return readObject(r, name, (*p).members())
	case **Auth:
		text, err := r.Value()
		if err != nil {
			return err
		}
		return json.Unmarshal(text, p)
	case **Window:
		*p = new(Window)
		return (*p).read(r)
	case **FollowUp:
		*p = new(FollowUp)
		return readObject(r, name, (*p).members())
	case **QueueCounts:
		*p = new(QueueCounts)
		return readObject(r, name, (*p).members())
	case *secretList:
		return readObject(r, name, []member{{field: contract.Secrets, place: (*[]string)(p)}})
	case **Error:
		*p = new(Error)
		return (*p).read(r)
	case *[]Past:
		return readList(r, name, p, func(past *Past) error { return readObject(r, name, past.members()) })
	case *[]BrokenReceiver:
		return readList(r, name, p, func(b *BrokenReceiver) error { return readObject(r, name, b.members()) })
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

// readNumbers reads an object of whole numbers.
func readNumbers(r *contract.Reader, name string, out *map[string]int) error {
	*out = map[string]int{}
	return r.Each(name, func(member []byte) error {
		var n int
		err := readValue(r, name, &n)
		(*out)[string(member)] = n
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

// readPage reads a page of a list: the named member, and the cursor of the next page, which is empty on the last one.
func readPage[T any](list contract.Field, items *[]T, next *string, read func(*T, *contract.Reader) error,
) func(reply) error {
	return readAnswer(func(r *contract.Reader) error {
		*next = ""
		return readObject(r, "page", []member{
			{list, func() error {
				return readList(r, list.String(), items, func(item *T) error { return read(item, r) })
			}, 0},
			{contract.NextCursor, next, 0},
		})
	})
}

var (
	errYear     = errors.New("an instant is not between the years 0 and 9999")
	errTemplate = errors.New("the task of a schedule has no id, time or jitter of its own: see Repeat")
)

// appendMembers appends the members of a list. merged makes them a merge patch (RFC 7396): what is not zero, an empty
// list or object included, and a null for each empty value in a map.
func appendMembers(b []byte, list []member, merged bool) ([]byte, error) {
	for i := range list {
		m := &list[i]
		if m.presence&silent != 0 {
			continue
		}
		var err error
		if b, err = appendMember(b, m.field, m.place, m.presence&always != 0 && !merged, merged); err != nil {
			return b, err
		}
	}
	return b, nil
}

// appendMember appends a member, unless its value is zero and always is not set.
func appendMember(b []byte, f contract.Field, place any, always, merged bool) ([]byte, error) {
	switch p := place.(type) {
	case *string:
		return appendText(b, f, *p, always), nil
	case *State:
		return appendText(b, f, string(*p), always), nil
	case *Outcome:
		return appendText(b, f, string(*p), always), nil
	case *int:
		if *p != 0 || always {
			b = contract.AppendInt(b, f, int64(*p))
		}
	case *uint64:
		if *p != 0 || always {
			b = contract.AppendUint(b, f, *p)
		}
	case *uint32:
		if *p != 0 || always {
			b = contract.AppendUint(b, f, uint64(*p))
		}
	case *bool:
		if *p || always {
			b = contract.AppendBool(b, f, *p)
		}
	case *time.Time:
		if !p.IsZero() || always {
			b = appendTimeOrNull(b, f, *p)
		}
	case *time.Duration:
		b = contract.AppendSpan(b, f, *p)
	case *json.RawMessage:
		return appendPayload(b, *p)
	default:
		return appendRare(b, f, place, merged)
	}
	return b, nil
}

// appendRare is appendMember for the places that most objects leave empty.
func appendRare(b []byte, f contract.Field, place any, merged bool) ([]byte, error) {
	switch p := place.(type) {
	case *[]byte:
		if len(*p) > 0 {
			b = contract.AppendBase64(b, f, *p)
		}
	case *float64:
		if *p != 0 {
			b = contract.AppendFloat(b, f, *p)
		}
	case *map[string]string:
		b = appendMap(b, f, *p, merged, appendPairText)
	case *map[string]int:
		b = appendMap(b, f, *p, merged, appendPairNumber)
	case *[]time.Duration:
		if merged && *p != nil && len(*p) == 0 {
			return append(contract.AppendName(b, f), "[]"...), nil
		}
		b = contract.AppendSpans(b, f, *p)
	case *secretList:
		b = contract.AppendSigning(b, *p)
	case **time.Time:
		if *p == nil {
			return contract.AppendTimeOrNull(b, f, 0), nil
		}
		b = appendTimeOrNull(b, f, **p)
	case **Target:
		if *p != nil {
			return appendObject(b, f, (*p).members(), merged)
		}
	case **Retry:
		if *p != nil {
			return appendObject(b, f, (*p).members(), merged)
		}
	case **QueueCounts:
		if *p != nil {
			return appendObject(b, f, (*p).members(), merged)
		}
	case **FollowUp:
		return appendFollowUp(b, f, *p)
	case **Window:
		if *p != nil {
			return appendJSON(b, f, *p)
		}
	case **Auth:
		if *p != nil {
			return appendJSON(b, f, *p)
		}
	case *[]Past:
		return appendList(b, f, *p, (*Past).members)
	case *[]BrokenReceiver:
		return appendList(b, f, *p, (*BrokenReceiver).members)
	default:
		panic("client: the place for " + f.String() + " has a type that appendRare does not know")
	}
	return b, nil
}

func appendText(b []byte, f contract.Field, text string, always bool) []byte {
	if text == "" && !always {
		return b
	}
	return contract.AppendText(b, f, text)
}

func appendJSON(b []byte, f contract.Field, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return b, fmt.Errorf("%s: %w", f, err)
	}
	return append(contract.AppendName(b, f), text...), nil
}

func appendObject(b []byte, f contract.Field, list []member, merged bool) ([]byte, error) {
	b = contract.AppendName(b, f)
	begin := len(b)
	b, err := appendMembers(b, list, merged)
	return contract.Close(b, begin), err
}

// appendList appends an array of objects, unless it is empty.
func appendList[T any](b []byte, f contract.Field, all []T, members func(*T) []member) ([]byte, error) {
	if len(all) == 0 {
		return b, nil
	}
	b = append(contract.AppendName(b, f), '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		begin := len(b)
		var err error
		if b, err = appendMembers(b, members(&all[i]), false); err != nil {
			return b, err
		}
		b = contract.Close(b, begin)
	}
	return append(b, ']'), nil
}

// appendPayload appends a payload byte for byte after checking that it is one JSON value, since other bytes could pass
// for members.
func appendPayload(b []byte, payload json.RawMessage) ([]byte, error) {
	if payload == nil {
		return b, nil
	}
	if err := contract.Valid(payload); err != nil {
		return b, fmt.Errorf("payload is not JSON (%w); other bytes belong in PayloadBytes", err)
	}
	return append(contract.AppendName(b, contract.Payload), payload...), nil
}

// breaksLine reports whether b has a line break, so that it cannot stand in a line.
func breaksLine(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

// appendMap appends an object, unless it is empty. The members are sorted by name, so that equal calls have equal
// bytes. In a merge patch a null, for a zero value, removes the entry, and only a nil map is left out.
func appendMap[V comparable](
	b []byte, f contract.Field, m map[string]V, merged bool, value func([]byte, V) []byte,
) []byte {
	if len(m) == 0 && (!merged || m == nil) {
		return b
	}
	b = append(contract.AppendName(b, f), '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(contract.AppendString(b, name), ':')
		if v := m[name]; merged && v == *new(V) {
			b = append(b, "null"...)
		} else {
			b = value(b, v)
		}
	}
	return append(b, '}')
}

func appendPairText(b []byte, text string) []byte { return contract.AppendString(b, text) }
func appendPairNumber(b []byte, n int) []byte     { return strconv.AppendInt(b, int64(n), 10) }

func appendDuration(b []byte, f contract.Field, d time.Duration) []byte {
	return contract.AppendDuration(contract.AppendName(b, f), d)
}

func appendInstant(b []byte, f contract.Field, t time.Time) ([]byte, error) {
	// RFC 3339 has four digits for the year.
	const first, last = -62167219200000, 253402300799999
	ms := contract.CeilUnixMs(t)
	if ms < first || ms > last {
		return b, errYear
	}
	return contract.AppendTime(b, f, ms), nil
}

// appendTimeOrNull appends an instant, or null for the zero time.
func appendTimeOrNull(b []byte, f contract.Field, t time.Time) []byte {
	if t.IsZero() {
		return contract.AppendTimeOrNull(b, f, 0)
	}
	return contract.AppendTimeOrNull(b, f, contract.CeilUnixMs(t))
}

// mergePatch returns the members of a list that are given, as a merge patch.
func mergePatch(list []member) (map[string]any, error) {
	b, err := appendMembers(nil, list, true)
	if err != nil {
		return nil, err
	}
	m := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(contract.Close(b, 0)))
	in.UseNumber() // payloads keep their digits
	return m, in.Decode(&m)
}
