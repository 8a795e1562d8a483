package redisapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/client"
)

// The bounds of keys, members and ranges.
const (
	maxID       = 200 // bytes, as in the API
	maxKey      = maxID - len(":") - 2*sumBytes
	maxMember   = 256 << 10 // bytes: the limit of a payload
	sumBytes    = 16        // of the hash in an id
	maxRange    = 10_000    // members that one answer has or passes over
	rangeBytes  = 16 << 20  // of the members of one answer
	pageMembers = 1000      // the limit of a list
	popMembers  = 100       // taken by one lease
	popLease    = 30 * time.Second
)

var queueName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:~-]*$`)

// checkKey refuses a key that is no name of a queue, or whose ids would be too long.
func checkKey(key []byte) error {
	if len(key) > maxKey || !queueName.Match(key) {
		return fmt.Errorf("ERR the key %q is no name of a queue: [A-Za-z0-9][A-Za-z0-9._:~-]{0,%d}", clip(key), maxKey-1)
	}
	return nil
}

// idOf returns the id of the task of a member.
func idOf(key, member string) string {
	sum := sha256.Sum256([]byte(member))
	return key + ":" + hex.EncodeToString(sum[:sumBytes])
}

// taskOf returns the task of a member.
func taskOf(key, member string, due time.Time) client.Task {
	t := client.Task{ID: idOf(key, member), Queue: key, FireAt: due}
	payload := []byte(member)
	switch text := utf8.Valid(payload); {
	case member == "":
	case text && isJSON(payload):
		t.Payload = payload
	case text:
		t.PayloadBytes, t.ContentType = payload, "text/plain; charset=utf-8"
	default:
		t.PayloadBytes, t.ContentType = payload, "application/octet-stream"
	}
	return t
}

// isJSON reports whether a payload is JSON that a line of a batch carries byte for byte.
func isJSON(payload []byte) bool {
	return len(bytes.TrimSpace(payload)) == len(payload) && !bytes.ContainsAny(payload, "\r\n") && json.Valid(payload)
}

func memberOf(t *client.Task) string {
	if t.Payload != nil {
		return string(t.Payload)
	}
	return string(t.PayloadBytes)
}

// waits reports whether a task in a state is in the set.
func waits(state client.State) bool {
	return state == client.StateScheduled || state == client.StateReady || state == client.StateRetrying
}

// isMember reports whether a task, which may be nil, is in the set of a key.
func isMember(t *client.Task, key string) bool { return t != nil && t.Queue == key && waits(t.State) }

var (
	errSyntax     = errors.New("ERR syntax error")
	errNotInteger = errors.New("ERR value is not an integer or out of range")
	errCount      = errors.New("ERR value is out of range, must be positive")
)

// zadd is a ZADD that was read.
type zadd struct {
	key                string
	unit               Unit
	nx, xx, gt, lt, ch bool
	edits              []*edit
}

// parseZADD reads a ZADD, without its name. Nothing is changed if a part of it is wrong.
func parseZADD(unit Unit, args [][]byte) (*zadd, error) {
	z := &zadd{key: string(args[0]), unit: unit}
	rest := args[1:]
	for ; len(rest) > 0; rest = rest[1:] {
		option := map[string]*bool{"NX": &z.nx, "XX": &z.xx, "GT": &z.gt, "LT": &z.lt, "CH": &z.ch}[upper(rest[0])]
		if upper(rest[0]) == "INCR" {
			return nil, errors.New("ERR INCR is not among the options of ZADD here: " + seePage)
		}
		if option == nil {
			break
		}
		*option = true
	}
	switch {
	case len(rest) == 0 || len(rest)%2 != 0:
		return nil, errSyntax
	case z.nx && z.xx:
		return nil, errors.New("ERR XX and NX options at the same time are not compatible")
	case z.gt && z.lt || z.nx && (z.gt || z.lt):
		return nil, errors.New("ERR GT, LT, and/or NX options at the same time are not compatible")
	}
	if err := checkKey(args[0]); err != nil {
		return nil, err
	}
	for pair := range slices.Chunk(rest, 2) {
		due, err := unit.due(pair[0])
		if err == nil {
			err = checkMember(pair[1])
		}
		if err != nil {
			return nil, err
		}
		z.edits = append(z.edits, z.edit(taskOf(z.key, string(pair[1]), due)))
	}
	return z, nil
}

func checkMember(member []byte) error {
	if len(member) > maxMember {
		return fmt.Errorf("ERR a member has %d bytes: a payload has %d at most", len(member), maxMember)
	}
	return nil
}

// edit returns the edit that adds or moves a member.
func (z *zadd) edit(t client.Task) *edit {
	e := &edit{id: t.ID}
	if e.blind = !(z.nx || z.xx || z.gt || z.lt || z.ch); e.blind {
		e.plan = func(*client.Task) (client.Op, bool) { return client.ScheduleOp(t), true }
		return e
	}
	e.plan = func(present *client.Task) (client.Op, bool) {
		if e.moves = isMember(present, z.key); e.moves {
			later := t.FireAt.Compare(present.FireAt)
			if z.nx || later == 0 || z.gt && later < 0 || z.lt && later > 0 {
				return client.Op{}, false
			}
		} else if z.xx {
			return client.Op{}, false
		}
		return client.ScheduleOp(t, conditionOf(present)), true
	}
	return e
}

// count returns the answer: the number of the members that were added, with CH also of those that were moved.
func (z *zadd) count() (n int) {
	for _, e := range z.edits {
		added := !e.moves
		if e.blind {
			added = !waits(e.result.Previous)
		}
		if e.done && (added || z.ch) {
			n++
		}
	}
	return n
}

// parseZREM reads a ZREM, without its name.
func parseZREM(args [][]byte) ([]*edit, error) {
	if err := checkKey(args[0]); err != nil {
		return nil, err
	}
	key := string(args[0])
	var edits []*edit
	for _, member := range args[1:] {
		id := idOf(key, string(member))
		edits = append(edits, &edit{id: id, plan: func(present *client.Task) (client.Op, bool) {
			if !isMember(present, key) {
				return client.Op{}, false
			}
			return client.CancelOp(id, conditionOf(present)), true
		}})
	}
	return edits, nil
}

func (c *conn) zscore(args [][]byte) error {
	if err := checkKey(args[0]); err != nil {
		return err
	}
	key := string(args[0])
	t, err := get(c.server.ctx, c.client, idOf(key, string(args[1])))
	switch {
	case err != nil:
		return refusal(err)
	case !isMember(t, key):
		c.null()
	default:
		c.double(c.server.cfg.Scores.score(t.FireAt))
	}
	return nil
}

// zcard counts all waiting tasks of the queue, which costs the same however many they are.
func (c *conn) zcard(args [][]byte) error {
	if err := checkKey(args[0]); err != nil {
		return err
	}
	q, err := c.client.Queue(c.server.ctx, string(args[0]))
	switch {
	case errors.Is(err, client.ErrNotFound):
		c.integer(0)
	case err != nil:
		return refusal(err)
	case q.Counts == nil:
		return errors.New("ERR the queue has no counts")
	default:
		c.integer(int(q.Counts.Scheduled + q.Counts.Ready + q.Counts.Retrying))
	}
	return nil
}

// window is the part of a range that LIMIT asks for.
type window struct{ offset, count int } // count below 0: all

// parseRange reads the options of a range.
func parseRange(args [][]byte) (withScores bool, w window, err error) {
	w.count = -1
	for len(args) > 0 {
		switch option := upper(args[0]); {
		case option == "WITHSCORES":
			withScores, args = true, args[1:]
		case option == "LIMIT" && len(args) >= 3:
			if w.offset, err = strconv.Atoi(string(args[1])); err == nil {
				w.count, err = strconv.Atoi(string(args[2]))
			}
			if err != nil {
				return false, w, errNotInteger
			}
			args = args[3:]
		default:
			return false, w, errSyntax
		}
	}
	return withScores, w, nil
}

func (c *conn) zrangebyscore(args [][]byte) error {
	withScores, w, err := parseRange(args[3:])
	if err != nil {
		return err
	}
	s, err := c.server.cfg.Scores.span(args[1], args[2])
	if err == nil {
		err = checkKey(args[0])
	}
	if err != nil {
		return err
	}
	var found []client.Task
	if !s.empty && w.offset >= 0 && w.count != 0 {
		if found, err = c.members(string(args[0]), s, w); err != nil {
			return err
		}
	}
	c.writeMembers(found, withScores, withScores && c.resp3)
	return nil
}

// members returns the members of a window of a range, by their scores.
func (c *conn) members(key string, s span, w window) ([]client.Task, error) {
	most := maxRange + 1
	if w.count > 0 && w.offset < maxRange {
		most = min(w.offset+min(w.count, maxRange+1), most)
	}
	if w.offset >= maxRange {
		return nil, errLongRange
	}
	var found []client.Task
	n, size, held := 0, 0, c.taken
	for page, err := range c.client.Pages(c.server.ctx, client.Filter{
		States: []client.State{client.StateScheduled, client.StateReady, client.StateRetrying},
		Queue:  key, Prefix: key + ":", DueAfter: s.from, DueBefore: s.before, Order: client.ByDue, Payload: true,
		PageSize: min(most, pageMembers),
	}) {
		if err != nil {
			return nil, refusal(err)
		}
		for i := range page {
			t := &page[i]
			member := memberOf(t)
			if n == most || t.ID != idOf(key, member) {
				continue
			}
			if n++; n > w.offset {
				found = append(found, *t)
				size += len(member)
			}
		}
		if size > rangeBytes || n > maxRange {
			return nil, errLongRange
		}
		if more := held + size - c.taken; more > freeBytes {
			if !c.memory.Take(more) {
				return nil, errMemory
			}
			c.taken += more
		}
		if n == most {
			break
		}
	}
	return found, nil
}

var errLongRange = fmt.Errorf("ERR the range has more than %d members or %d bytes: ask for a part of it with LIMIT",
	maxRange, rangeBytes)

// zpopmin leases tasks and acknowledges them. A task whose acknowledgement fails is not popped: it returns to the set
// when its lease ends.
func (c *conn) zpopmin(args [][]byte) error {
	n, single := 1, len(args) == 1
	if len(args) > 2 {
		return errSyntax
	}
	if !single {
		var err error
		if n, err = strconv.Atoi(string(args[1])); err != nil || n < 0 {
			return errCount
		}
	}
	if err := checkKey(args[0]); err != nil {
		return err
	}
	var popped []client.Task
	size := 0
	for n > 0 {
		some, more, err := c.pop(string(args[0]), min(n, popMembers))
		if popped = append(popped, some...); err != nil && len(popped) == 0 {
			return err
		}
		for i := range some {
			size += len(memberOf(&some[i]))
		}
		if n -= len(some); err != nil || !more || len(popped) >= maxRange || size > rangeBytes {
			break
		}
	}
	c.writeMembers(popped, true, c.resp3 && !single)
	return nil
}

// pop returns tasks that it has ended. more reports whether another lease may find some.
func (c *conn) pop(queue string, most int) (popped []client.Task, more bool, err error) {
	leased, err := c.client.Lease(c.server.ctx, queue, client.Demand{Max: most, Lease: popLease})
	if err != nil || len(leased) == 0 {
		return nil, false, refusal(err)
	}
	var receipts client.Settlement
	for i := range leased {
		receipts.Ack = append(receipts.Ack, leased[i].Receipt)
	}
	for i, settled := range c.client.Settle(c.server.ctx, queue, receipts) {
		switch {
		case settled.Err == nil:
			popped = append(popped, leased[i].Task)
		case !errors.Is(settled.Err, client.ErrConflict) && !errors.Is(settled.Err, client.ErrNotFound):
			err = refusal(settled.Err)
		}
	}
	return popped, true, err
}

// writeMembers answers with members in the order of Redis. nested makes a pair of each member and its score.
func (c *conn) writeMembers(tasks []client.Task, withScores, nested bool) {
	slices.SortFunc(tasks, func(a, b client.Task) int {
		return cmp.Or(a.FireAt.Compare(b.FireAt), strings.Compare(memberOf(&a), memberOf(&b)))
	})
	n := len(tasks)
	if withScores && !nested {
		n *= 2
	}
	c.array(n)
	for i := range tasks {
		if nested {
			c.array(2)
		}
		c.bulk(memberOf(&tasks[i]))
		if withScores {
			c.double(c.server.cfg.Scores.score(tasks[i].FireAt))
		}
	}
}

func upper(text []byte) string { return strings.ToUpper(string(text)) }

func zaddEdits(u Unit, args [][]byte) pending {
	z, err := parseZADD(u, args)
	if err != nil {
		return pending{err: err}
	}
	return pending{edits: z.edits, count: z.count}
}

func zremEdits(_ Unit, args [][]byte) pending {
	edits, err := parseZREM(args)
	return pending{edits: edits, err: err, count: func() (n int) {
		for _, e := range edits {
			if e.done {
				n++
			}
		}
		return n
	}}
}
