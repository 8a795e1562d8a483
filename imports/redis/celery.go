package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
)

// Celery reads the tasks of Celery with an ETA or a countdown. The payload of a task is its message, and its target
// pushes the message back onto its list at the ETA. Messages without an ETA stay where they are.
//
// A worker takes messages out of their lists long before they are due, and keeps them in its memory and in the hash
// unacked. A worker that is stopped puts them back into the lists, and one that is killed leaves them in unacked. All
// workers must be stopped, and Claim refuses to work beside one.
type Celery struct {
	*Source
	queues []string
	target string // the Redis as the nodes of Belfry reach it
}

// The keys of kombu, the library by which Celery uses a Redis.
const (
	unackedKey   = "unacked"       // a hash of [message, exchange, routing key], by delivery tags
	unackedIndex = "unacked_index" // a sorted set of the delivery tags
	prioritySep  = "\x06\x16"      // between a queue and a priority, in the name of a list
)

// prioritySteps are the priorities with lists of their own. The list of priority 0 has the name of the queue.
var prioritySteps = []int{0, 3, 6, 9}

// OpenCelery opens the tasks with an ETA in these queues, or in the queue celery. The target is the address at which
// the nodes of Belfry reach the Redis, like redis://host:6379/0; empty: that of o.URL.
func OpenCelery(ctx context.Context, o Options, target string, queues ...string) (*Celery, error) {
	u, err := parseURL(cmp.Or(target, o.URL))
	if err != nil {
		return nil, err
	}
	u.User, u.RawQuery = nil, ""
	s, err := open(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	s.sets = []set{{key: "celery"}}
	if len(queues) == 0 {
		queues = []string{"celery"}
	}
	return &Celery{s, queues, u.String()}, nil
}

// held is a message of Celery. Its JSON is the member of the sorted set of claimed messages.
type held struct {
	Queue   string `json:"queue"`
	List    string `json:"list"`
	Message string `json:"message"` // JSON, as Celery has written it

	tag   string // of unacked; empty: the message is in its list
	value string // of the tag, or the element of the list; empty: the message is claimed
}

// celeryMessage is the part of a message that an import needs.
type celeryMessage struct {
	Headers struct {
		ID, Task string
		ETA      *string
	}
	Properties struct{ Priority int }
}

// Count returns the number of messages in unacked and in the lists.
func (s *Celery) Count(ctx context.Context) (n int64, err error) {
	if n, err = redis.Int64(redis.DoContext(s.conn, ctx, "HLEN", unackedKey)); err != nil {
		return 0, err
	}
	for _, list := range s.lists() {
		length, err := redis.Int64(redis.DoContext(s.conn, ctx, "LLEN", list.List))
		if err != nil {
			return 0, err
		}
		n += length
	}
	return n, nil
}

// lists returns the lists of the queues.
func (s *Celery) lists() (lists []held) {
	for _, queue := range s.queues {
		for _, priority := range prioritySteps {
			lists = append(lists, held{Queue: queue, List: listOf(queue, priority)})
		}
	}
	return lists
}

// listOf returns the list of a queue for a priority.
func listOf(queue string, priority int) string {
	above, _ := slices.BinarySearch(prioritySteps, priority+1)
	if above <= 1 {
		return queue
	}
	return queue + prioritySep + strconv.Itoa(prioritySteps[above-1])
}

// Records implements imports.Source.
func (s *Celery) Records(ctx context.Context) iter.Seq2[imports.Record, error] {
	return func(yield func(imports.Record, error) bool) {
		each := func(h held) error {
			if record, delayed := s.record(h); delayed && !yield(record, nil) {
				return errEnough
			}
			return nil
		}
		err := s.claimed(ctx, each)
		if err == nil {
			err = s.unacked(ctx, each)
		}
		if err == nil {
			err = s.listed(ctx, each)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(imports.Record{}, err)
		}
	}
}

// claimed reads the messages that an earlier move has claimed.
func (s *Celery) claimed(ctx context.Context, each func(held) error) error {
	for entries, err := range s.pages(ctx, s.sets[0].claims()) {
		for i := 0; i < len(entries) && err == nil; i++ {
			var h held
			if err = json.Unmarshal([]byte(entries[i].member), &h); err == nil {
				err = each(h)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.sets[0].claims(), err)
		}
	}
	return nil
}

// unacked reads the messages that killed workers have left, in the order in which these took them.
func (s *Celery) unacked(ctx context.Context, each func(held) error) error {
	for entries, err := range s.pages(ctx, unackedIndex) {
		var values []string
		if err == nil {
			args := []any{unackedKey}
			for _, e := range entries {
				args = append(args, e.member)
			}
			values, err = redis.Strings(redis.DoContext(s.conn, ctx, "HMGET", args...))
		}
		for i := 0; i < len(values) && err == nil; i++ {
			if values[i] != "" { // else a worker has acknowledged it
				err = s.unackedValue(held{tag: entries[i].member, value: values[i]}, each)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", unackedKey, err)
		}
	}
	return nil
}

// unackedValue reads a message of unacked, unless it is in another queue. Its list is known if its exchange is the
// default one, whose routing keys are queues.
func (s *Celery) unackedValue(h held, each func(held) error) error {
	var message json.RawMessage
	var exchange, key string
	if err := json.Unmarshal([]byte(h.value), &[]any{&message, &exchange, &key}); err != nil {
		return fmt.Errorf("tag %s: %w", h.tag, err)
	}
	h.Queue, h.Message = key, string(message)
	if exchange == "" {
		var m celeryMessage
		_ = json.Unmarshal(message, &m) // record reports the error
		h.List = listOf(key, m.Properties.Priority)
		if !slices.Contains(s.queues, key) {
			return nil
		}
	}
	return each(h)
}

// listed reads the lists from their right ends. A message that is claimed meanwhile moves none that is read later.
func (s *Celery) listed(ctx context.Context, each func(held) error) error {
	for _, list := range s.lists() {
		end, err := redis.Int(redis.DoContext(s.conn, ctx, "LLEN", list.List))
		for ; end > 0 && err == nil; end -= pageSize {
			var values []string
			values, err = redis.Strings(redis.DoContext(s.conn, ctx, "LRANGE", list.List, max(end-pageSize, 0), end-1))
			for i := len(values) - 1; i >= 0 && err == nil; i-- {
				h := list
				h.value, h.Message = values[i], values[i]
				err = each(h)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", list.List, err)
		}
	}
	return nil
}

var (
	errNotCelery = errors.New("the message is not of Celery 4 or later: its headers name no task")
	errNoText    = errors.New("the message is not in UTF-8")
	errRouted    = errors.New("the message came by an exchange, and its list is not known: start a worker and stop it, " +
		"and the message is in its list")
)

// record makes a record of a message. delayed reports whether the message has an ETA, or cannot be read.
func (s *Celery) record(h held) (r imports.Record, delayed bool) {
	var m celeryMessage
	err := json.Unmarshal([]byte(h.Message), &m)
	r.Text, r.Claimed = h.Message, h.value == ""
	r.Key = "celery:" + cmp.Or(m.Headers.ID, h.tag, h.List)
	switch {
	case err != nil:
		r.Err = fmt.Errorf("the message: %w", err)
	case m.Headers.ID == "" || m.Headers.Task == "":
		r.Err = errNotCelery
	case m.Headers.ETA == nil:
		return r, false
	case !utf8.ValidString(h.Message):
		r.Err = errNoText
	case h.List == "":
		r.Err = errRouted
	default:
		r.Err = s.setTask(&r, h, &m)
	}
	return r, true
}

// setTask sets the task and the origin of a record by a message with an ETA.
func (s *Celery) setTask(r *imports.Record, h held, m *celeryMessage) error {
	due, err := client.ParseInstant(*m.Headers.ETA)
	if err != nil {
		return fmt.Errorf("the ETA: %w", err)
	}
	r.Task = client.Task{
		ID: imports.StableID(s.prefix, r.Key), Queue: cmp.Or(s.queue, h.Queue), FireAt: due,
		Labels: map[string]string{typeLabel: m.Headers.Task}, Payload: json.RawMessage(h.Message),
		Target: &client.Target{URL: s.target + "?list=" + url.QueryEscape(h.List) + "&push=left"},
	}
	member, err := json.Marshal(h)
	e := entry{set: s.sets[0], member: string(member), score: strconv.FormatInt(due.UnixMilli(), 10)}
	r.Origin = &origin{entry: e, held: &h}
	return err
}

var (
	// claimCelery moves messages out of their lists, or out of unacked, to the sorted set KEYS[1].
	claimCelery = redis.NewScript(3, `
		local had = {}
		for i = 1, #ARGV, 5 do
			local list, tag, value, due, member = unpack(ARGV, i, i + 4)
			local took = 0
			if not redis.call('ZSCORE', KEYS[1], member) then
				if tag == '' then
					took = redis.call('LREM', list, -1, value)
				elseif redis.call('HGET', KEYS[2], tag) == value then
					took = redis.call('HDEL', KEYS[2], tag)
					redis.call('ZREM', KEYS[3], tag)
				end
			end
			if took == 1 then
				redis.call('ZADD', KEYS[1], due, member)
			end
			had[#had + 1] = took
		end
		return had`)

	// giveBackCelery moves messages to the ends of their lists at which workers take them.
	giveBackCelery = redis.NewScript(1, `
		for i = 1, #ARGV, 3 do
			if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
				redis.call('RPUSH', ARGV[i + 1], ARGV[i + 2])
			end
		end`)
)

// Claim implements imports.Mover. It returns an error beside a worker.
func (s *Celery) Claim(ctx context.Context, records []imports.Record) (had []bool, err error) {
	if err := s.checkStopped(ctx); err != nil {
		return nil, err
	}
	for set, group := range groups(records) {
		args := []any{set.claims(), unackedKey, unackedIndex}
		for _, o := range group {
			args = append(args, o.held.List, o.held.tag, o.held.value, o.score, o.member)
		}
		answer, err := redis.Ints(claimCelery.DoContext(ctx, s.conn, args...))
		if err != nil {
			return nil, err
		}
		for _, n := range answer {
			had = append(had, n == 1)
		}
	}
	return had, nil
}

// GiveBack implements imports.Mover.
func (s *Celery) GiveBack(ctx context.Context, records []imports.Record) error {
	for set, group := range groups(records) {
		args := []any{set.claims()}
		for _, o := range group {
			args = append(args, o.member, o.held.List, o.held.Message)
		}
		if _, err := giveBackCelery.DoContext(ctx, s.conn, args...); err != nil {
			return fmt.Errorf("giving back messages of Celery: %w", err)
		}
	}
	return nil
}

// The fields of a client in CLIENT LIST: all clients that have waited at a list last, and the database of any client.
var (
	atList     = regexp.MustCompile(`(?m)^.* addr=(\S+) .* db=(\d+) .* cmd=brpop .*$`)
	inDatabase = regexp.MustCompile(` db=(\d+) `)
)

// checkStopped returns an error if a client takes messages from lists of the database.
func (s *Celery) checkStopped(ctx context.Context) error {
	own, err := redis.String(redis.DoContext(s.conn, ctx, "CLIENT", "INFO"))
	if err != nil {
		return fmt.Errorf("looking for workers: %w", err)
	}
	clients, err := redis.String(redis.DoContext(s.conn, ctx, "CLIENT", "LIST"))
	if err != nil {
		return fmt.Errorf("looking for workers: %w", err)
	}
	for _, found := range atList.FindAllStringSubmatch(clients, -1) {
		if db := inDatabase.FindStringSubmatch(own); len(db) == 2 && db[1] == found[2] {
			return fmt.Errorf("the client at %s takes messages from lists (BRPOP), as a worker of Celery does, which would "+
				"run its tasks too: stop all workers", found[1])
		}
	}
	return nil
}
