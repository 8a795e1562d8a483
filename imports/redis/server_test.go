package redis

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/internal/assert"
)

// membersOf returns the members of a source, claimed ones with a star.
func membersOf(t *testing.T, s *Source, beside func(n int)) (members []string) {
	t.Helper()
	for r, err := range s.Records(t.Context()) {
		assert.NoError(t, err)
		name := r.Origin.(*origin).member
		if r.Claimed {
			name += "*"
		}
		members = append(members, name)
		beside(len(members))
	}
	return members
}

// A set is read once and in order, also if thousands of members are due at one time, and while workers remove members
// that were read.
func TestRedisServerPages(t *testing.T) {
	r := startRedis(t)
	var want []string
	for i := range 6000 {
		member, score := fmt.Sprintf("m-%05d", i), i
		if i >= 1000 && i < 5000 {
			score = 2000
		}
		want = append(want, member)
		r.ask("ZADD", "delayed", score, member)
	}
	s, err := SortedSet(t.Context(), Options{URL: r.url}, imports.Auto, "delayed", "empty")
	assert.NoError(t, err)
	defer s.Close()
	n, err := s.Count(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, n, 6000)
	got := membersOf(t, s, func(n int) {
		if n%1500 == 0 {
			r.ask("ZREMRANGEBYRANK", "delayed", 0, 499)
		}
	})
	slices.Sort(got)
	assert.EqualSlices(t, got, want)
}

// A claim takes the members that have not changed since they were read. A member that is given back has its score,
// unless the scheduler has it anew. A finished one is gone with its remnants.
func TestRedisServerClaims(t *testing.T) {
	r := startRedis(t)
	for i, member := range []string{"a", "b", "c", "d", "e", "f"} {
		r.ask("ZADD", "delayed", fmt.Sprint(1893492000+i, ".25"), member)
	}
	s, err := SortedSet(t.Context(), Options{URL: r.url}, imports.Auto, "delayed")
	assert.NoError(t, err)
	defer s.Close()
	var records []imports.Record
	for record, err := range s.Records(t.Context()) {
		assert.NoError(t, err)
		records = append(records, record)
	}
	r.ask("ZREM", "delayed", "a")
	r.ask("ZADD", "delayed", 5, "b")
	had, err := s.Claim(t.Context(), records)
	assert.NoError(t, err)
	assert.EqualSlices(t, had, []bool{false, false, true, true, true, true})
	assert.EqualSlices(t, membersOf(t, s, func(int) {}), []string{"c*", "d*", "e*", "f*", "b"})

	r.ask("SET", "lock-c", "c")
	r.ask("SET", "lock-f", "another")
	r.ask("HSET", "hash-b", "x", "y")
	r.ask("HSET", "hash-c", "x", "y")
	records[1].Origin.(*origin).remnant = remnant{hash: "hash-b"}
	records[2].Origin.(*origin).remnant = remnant{hash: "hash-c", log: "log-c", lock: "lock-c"}
	records[5].Origin.(*origin).remnant = remnant{lock: "lock-f"}
	r.ask("ZADD", "delayed", 7, "d")
	assert.NoError(t, s.Finish(t.Context(), []imports.Record{records[1], records[2], records[5]}))
	assert.NoError(t, s.GiveBack(t.Context(), []imports.Record{records[2], records[3], records[4]}))
	assert.EqualSlices(t, r.keys("*"), []string{"delayed", "hash-b", "lock-f"})
	scores, err := redis.StringMap(r.ask("ZRANGE", "delayed", 0, -1, "WITHSCORES"), nil)
	assert.NoError(t, err)
	if len(scores) != 3 || scores["b"] != "5" || scores["d"] != "7" || scores["e"] != "1893492004.25" {
		t.Errorf("%v", scores)
	}
}
