package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/imports"
)

// Source reads sorted sets of a Redis. It is for one goroutine.
type Source struct {
	conn   redis.Conn
	sets   []set
	format format
	prefix string // of all ids
	queue  string // of all tasks; empty: the source's own
}

// Options are the settings of a Source.
type Options struct {
	URL      string // redis://user:password@host:port/db, or rediss:// for TLS
	Password string // in place of the URL's; empty: the URL's
	Prefix   string // of all ids
	Queue    string // of all tasks; empty: that of the source, or "default" for a SortedSet
}

// set is a sorted set, and the one that holds its claimed members.
type set struct {
	key   string
	queue string // of a scheduler with a set for each queue; empty: another scheduler
}

func (s set) claims() string { return "belfry-import:" + s.key }

// entry is a member of a set.
type entry struct {
	set           set
	member, score string
}

// remnant has the keys of a job beside its member of a set. Finish deletes them.
type remnant struct {
	hash, log string // keys; empty: there is none
	lock      string // a key that keeps like jobs out while its value is the member; empty: there is none
}

// origin is the Origin of the records.
type origin struct {
	entry
	remnant
	held *held // of a Celery; nil: of another source
}

// format knows how members of sorted sets are tasks.
type format interface {
	// records converts the entries of one set. It sets the Key, the Task without an id, the Err, the Text and the
	// remnant of each.
	records(s *Source, entries []entry) ([]converted, error)
}

// converted is a record without its Origin, and the remnant for that.
type converted struct {
	imports.Record
	remnant remnant
}

const timeout = 30 * time.Second // of one answer

var errURL = errors.New("the URL is not like redis://host:6379/0, or rediss:// for TLS")

// parseURL reads the URL of a Redis.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return nil, errURL // the error of url.Parse shows the password
	}
	return u, nil
}

// open connects to a Redis.
func open(ctx context.Context, o Options, f format) (*Source, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	options := []redis.DialOption{redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout)}
	if o.Password != "" {
		options = append(options, redis.DialUsername(u.User.Username()), redis.DialPassword(o.Password))
		u.User = nil // redigo takes the credentials of a URL before others
	}
	conn, err := redis.DialURLContext(ctx, u.String(), options...)
	if err != nil {
		return nil, fmt.Errorf("the Redis at %s: %s", u.Host, err.Error()) // not a dial of the cluster, to those who ask
	}
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
		return nil, fmt.Errorf("the Redis at %s: %w", u.Host, errors.Join(err, conn.Close()))
	}
	return &Source{conn: conn, format: f, prefix: o.Prefix, queue: o.Queue}, nil
}

// Close ends the connection.
func (s *Source) Close() error { return s.conn.Close() }

// Count returns the number of members in all sets, claimed ones included.
func (s *Source) Count(ctx context.Context) (n int64, err error) {
	for _, set := range s.sets {
		for _, key := range []string{set.claims(), set.key} {
			members, err := redis.Int64(redis.DoContext(s.conn, ctx, "ZCARD", key))
			if err != nil {
				return 0, fmt.Errorf("%s: %w", key, err)
			}
			n += members
		}
	}
	return n, nil
}

// Records implements imports.Source.
func (s *Source) Records(ctx context.Context) iter.Seq2[imports.Record, error] {
	return func(yield func(imports.Record, error) bool) {
		for _, claimed := range []bool{true, false} {
			for _, set := range s.sets {
				key := set.key
				if claimed {
					key = set.claims()
				}
				for entries, err := range s.pages(ctx, key) {
					if err == nil {
						err = s.yieldPage(set, entries, claimed, yield)
					}
					if errors.Is(err, errEnough) {
						return
					}
					if err != nil {
						yield(imports.Record{}, fmt.Errorf("%s: %w", key, err))
						return
					}
				}
			}
		}
	}
}

// errEnough ends a sequence whose reader wants no more.
var errEnough = errors.New("enough")

func (s *Source) yieldPage(set set, entries []entry, claimed bool, yield func(imports.Record, error) bool) error {
	for i := range entries {
		entries[i].set = set
	}
	records, err := s.format.records(s, entries)
	if err != nil {
		return err
	}
	for i := range records {
		record := records[i].Record
		record.Task.ID = imports.StableID(s.prefix, record.Key)
		if s.queue != "" {
			record.Task.Queue = s.queue
		}
		record.Claimed, record.Origin = claimed, &origin{entry: entries[i], remnant: records[i].remnant}
		if !yield(record, nil) {
			return errEnough
		}
	}
	return nil
}

const pageSize = 1000 // members

// pages yields the members of a sorted set, from the lowest score on.
func (s *Source) pages(ctx context.Context, key string) iter.Seq2[[]entry, error] {
	return func(yield func([]entry, error) bool) {
		from, size := "-inf", pageSize
		seen := map[string]bool{} // members with the score from
		for {
			answer, err := redis.Strings(redis.DoContext(s.conn, ctx, "ZRANGEBYSCORE", key, from, "+inf", "WITHSCORES",
				"LIMIT", 0, size))
			if err != nil {
				yield(nil, err)
				return
			}
			var page []entry
			for i := 0; i < len(answer); i += 2 {
				member, score := answer[i], answer[i+1]
				if score == from && seen[member] {
					continue
				}
				if score != from {
					from = score
					clear(seen)
				}
				seen[member] = true
				page = append(page, entry{member: member, score: score})
			}
			if len(page) > 0 && !yield(page, nil) || len(answer) < 2*size {
				return
			}
			if len(page) < size/2 { // most of them have one score: the next page must reach beyond
				size *= 2
			}
		}
	}
}

// The scripts work on KEYS[1], and take their members with the values that belong to each as ARGV.
var (
	// claimScript moves members with their scores to KEYS[2], unless one of that name is there already.
	claimScript = redis.NewScript(2, `
		local had = {}
		for i = 1, #ARGV, 2 do
			local member, score = ARGV[i], redis.call('ZSCORE', KEYS[1], ARGV[i])
			local free = not redis.call('ZSCORE', KEYS[2], member)
			if score and free and tonumber(score) == tonumber(ARGV[i + 1]) then
				redis.call('ZREM', KEYS[1], member)
				redis.call('ZADD', KEYS[2], score, member)
				had[#had + 1] = 1
			else
				had[#had + 1] = 0
			end
		end
		return had`)

	// giveBackScript moves members to KEYS[2], unless the scheduler has them anew.
	giveBackScript = redis.NewScript(2, `
		for i = 1, #ARGV do
			local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
			if score then
				redis.call('ZREM', KEYS[1], ARGV[i])
				redis.call('ZADD', KEYS[2], 'NX', score, ARGV[i])
			end
		end`)

	// finishScript removes members, with their remnants: the keys of a hash and of a log, and that of a lock.
	finishScript = redis.NewScript(1, `
		for i = 1, #ARGV, 4 do
			local member, lock = ARGV[i], ARGV[i + 3]
			if redis.call('ZREM', KEYS[1], member) == 1 then
				if ARGV[i + 1] ~= '' then
					redis.call('DEL', ARGV[i + 1], ARGV[i + 2])
				end
				if lock ~= '' and redis.call('GET', lock) == member then
					redis.call('DEL', lock)
				end
			end
		end`)
)

const scriptMembers = 500 // in one call: a script keeps others out for about a millisecond

// groups yields records by their sets, scriptMembers at most at once.
func groups(records []imports.Record) iter.Seq2[set, []*origin] {
	return func(yield func(set, []*origin) bool) {
		var group []*origin
		for i := range records {
			o, ours := records[i].Origin.(*origin)
			if !ours {
				panic("redis: the record belongs to another source")
			}
			if len(group) > 0 && (group[0].set != o.set || len(group) == scriptMembers) {
				if !yield(group[0].set, group) {
					return
				}
				group = nil
			}
			group = append(group, o)
		}
		if len(group) > 0 {
			yield(group[0].set, group)
		}
	}
}

// Claim implements imports.Mover.
func (s *Source) Claim(ctx context.Context, records []imports.Record) (had []bool, err error) {
	for set, group := range groups(records) {
		args := []any{set.key, set.claims()}
		for _, o := range group {
			args = append(args, o.member, o.score)
		}
		answer, err := redis.Ints(claimScript.DoContext(ctx, s.conn, args...))
		if err != nil {
			return nil, err
		}
		for _, n := range answer {
			had = append(had, n == 1)
		}
	}
	return had, nil
}

// Finish implements imports.Mover.
func (s *Source) Finish(ctx context.Context, records []imports.Record) error {
	for set, group := range groups(records) {
		args := []any{set.claims()}
		for _, o := range group {
			args = append(args, o.member, o.hash, o.log, o.lock)
		}
		if _, err := finishScript.DoContext(ctx, s.conn, args...); err != nil {
			return fmt.Errorf("finishing %s: %w", set.key, err)
		}
	}
	return nil
}

// GiveBack implements imports.Mover.
func (s *Source) GiveBack(ctx context.Context, records []imports.Record) error {
	for set, group := range groups(records) {
		args := []any{set.claims(), set.key}
		for _, o := range group {
			args = append(args, o.member)
		}
		if _, err := giveBackScript.DoContext(ctx, s.conn, args...); err != nil {
			return fmt.Errorf("giving back %s: %w", set.key, err)
		}
	}
	return nil
}

// hashes returns fields of the hashes of entries, whose keys key makes. The fields of a hash that does not exist are
// empty.
func (s *Source) hashes(entries []entry, key func(entry) string, fields ...string) ([]map[string]string, error) {
	for _, e := range entries {
		args := []any{key(e)}
		for _, field := range fields {
			args = append(args, field)
		}
		if err := s.conn.Send("HMGET", args...); err != nil {
			return nil, err
		}
	}
	if err := s.conn.Flush(); err != nil {
		return nil, err
	}
	found := make([]map[string]string, len(entries))
	for i := range entries {
		values, err := redis.Strings(s.conn.Receive())
		if err != nil {
			return nil, err
		}
		found[i] = map[string]string{}
		for f, field := range fields {
			found[i][field] = values[f]
		}
	}
	return found, nil
}
