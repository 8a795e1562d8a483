package redisapi_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/redisapi"
)

// TestSortedSet goes through the commands about keys.
func TestSortedSet(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		in1, in2, in3 := at(time.Hour), at(2*time.Hour), at(3*time.Hour)
		c.want("2", "ZADD", "jobs", in2, "b", in1, `{"a": 1}`)
		c.want("0", "ZADD", "jobs", in3, "b")
		c.want("1", "ZADD", "jobs", in3, "b", in2, "\x00\xff\r\n", in2, "\x00\xff\r\n")
		c.want("3", "ZCARD", "jobs")
		c.want(in1, "ZSCORE", "jobs", `{"a": 1}`)
		c.want("(nil)", "ZSCORE", "jobs", "none")
		c.want("(nil)", "ZSCORE", "other", "b")
		c.want(fmt.Sprintf(`[{"a": 1} %s %s %s b %s]`, in1, "\x00\xff\r\n", in2, in3),
			"ZRANGEBYSCORE", "jobs", "-inf", "+inf", "WITHSCORES")
		c.want("[b]", "ZRANGEBYSCORE", "jobs", "("+in2, "inf")
		c.want("[b]", "ZRANGEBYSCORE", "jobs", 0, "inf", "limit", 2, 5)
		c.want(`[{"a": 1}]`, "ZRANGEBYSCORE", "jobs", in1, "("+in2)
		c.want("[]", "ZRANGEBYSCORE", "jobs", in3, in1)
		c.want("[]", "ZRANGEBYSCORE", "jobs", "-inf", at(0))
		c.want("[]", "ZPOPMIN", "jobs")
		c.want("2", "ZREM", "jobs", "b", "none", "\x00\xff\r\n", "b")
		c.want("0", "ZREM", "jobs", "b")
		c.want("(nil)", "ZSCORE", "jobs", "b")
		c.want("1", "ZCARD", "jobs")
		c.want("0", "ZCARD", "none")

		task, err := w.calls.Get(t.Context(), redisapi.IDOf("jobs", `{"a": 1}`))
		assert.NoError(t, err)
		if string(task.Payload) != `{"a": 1}` || task.Queue != "jobs" || task.State != client.StateScheduled {
			t.Errorf("%+v", task)
		}
	})
}

// TestConditionsOfZADD checks each option over a member that is absent, present and removed.
func TestConditionsOfZADD(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		early, late := at(time.Hour), at(2*time.Hour)
		c.want("0", "ZADD", "q", "XX", early, "m")
		c.want("(nil)", "ZSCORE", "q", "m")
		c.want("1", "ZADD", "q", "NX", early, "m", late, "m")
		c.want(early, "ZSCORE", "q", "m")
		c.want("0", "ZADD", "q", "NX", late, "m")
		c.want("0", "ZADD", "q", "LT", late, "m")
		c.want(early, "ZSCORE", "q", "m")
		c.want("1", "ZADD", "q", "gt", "ch", late, "m")
		c.want("0", "ZADD", "q", "GT", "CH", early, "m")
		c.want(late, "ZSCORE", "q", "m")
		c.want("0", "ZADD", "q", "XX", "LT", early, "m")
		c.want(early, "ZSCORE", "q", "m")
		c.want("0", "ZADD", "q", "CH", early, "m")
		c.want("2", "ZADD", "q", "CH", late, "m", early, "n")
		c.want("1", "ZREM", "q", "m")
		c.want("0", "ZADD", "q", "XX", "CH", late, "m")
		c.want("1", "ZADD", "q", "NX", late, "m")
		c.want("1", "ZADD", "q", "GT", late, "o")
	})
}

// popAll pops n members, with their scores, in simulated time. A pop does not wait for the answers of all shards.
func (c conn) popAll(key string, n int) (popped []string) {
	c.t.Helper()
	for tries := 0; len(popped) < 2*n && tries < 100; tries++ {
		some, err := redis.Strings(c.Do("ZPOPMIN", key, 10))
		assert.NoError(c.t, err)
		popped = append(popped, some...)
		time.Sleep(10 * time.Millisecond)
	}
	return popped
}

// TestDueMembers checks that due members stay in the set until a worker removes them, that ZPOPMIN takes no others, and
// that a member which a consumer has leased is in no set.
func TestDueMembers(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		for i := range 5 {
			c.want("1", "ZADD", "q", at(time.Duration(i+1)*time.Minute), i)
		}
		time.Sleep(3*time.Minute + time.Second)
		c.want("[0 1 2]", "ZRANGEBYSCORE", "q", "-inf", at(0), "LIMIT", 0, 10)
		c.want("1", "ZREM", "q", "1")
		popped := c.popAll("q", 2)
		if len(popped) != 4 || min(popped[0], popped[2]) != "0" || max(popped[0], popped[2]) != "2" {
			t.Errorf("%q", popped)
		}
		c.want("[]", "ZPOPMIN", "q", 10)
		c.want("0", "ZREM", "q", "0")
		c.want("2", "ZCARD", "q")

		time.Sleep(time.Minute)
		leased, err := w.calls.Lease(t.Context(), "q", client.Demand{Max: 1, Lease: time.Minute})
		assert.NoError(t, err)
		assert.Equal(t, len(leased), 1)
		c.want("(nil)", "ZSCORE", "q", "3")
		c.want("0", "ZREM", "q", "3")
		c.want("[4]", "ZRANGEBYSCORE", "q", "-inf", "inf")
		assert.NoError(t, w.calls.Settle(t.Context(), "q", client.Settlement{Ack: []string{leased[0].Receipt}})[0].Err)
		c.want("1", "ZADD", "q", "NX", at(time.Hour), "3")
	})
}

// TestTasksOfOthers checks that tasks that the HTTP API has made are in no range, and that ZPOPMIN takes them.
func TestTasksOfOthers(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		for _, id := range []string{"q:mine", "mine"} {
			_, err := w.calls.Schedule(t.Context(), client.Task{ID: id, Queue: "q", FireAt: time.Now(), Payload: []byte(`1`)})
			assert.NoError(t, err)
		}
		c.want("[]", "ZRANGEBYSCORE", "q", "-inf", "inf")
		c.want("2", "ZCARD", "q")
		time.Sleep(time.Second)
		if popped := c.popAll("q", 2); len(popped) != 4 {
			t.Errorf("%q", popped)
		}
	})
}

// TestRefusals checks the texts of refusals, and that nothing has changed.
func TestRefusals(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		soon := at(time.Hour)
		for _, refused := range []struct {
			begins string
			words  []any
		}{
			{"ERR unknown command 'EVAL', with args beginning with: 'x' - docs/guides/redis.md", []any{"EVAL", "x"}},
			{"ERR wrong number of arguments for 'zadd' command", []any{"ZADD", "q", 1}},
			{"ERR wrong number of arguments for 'zscore' command", []any{"ZSCORE", "q"}},
			{"ERR syntax error", []any{"ZADD", "q", soon, "a", soon}},
			{"ERR syntax error", []any{"ZADD", "q", "NX", "CH"}},
			{"ERR value is not a valid float", []any{"ZADD", "q", soon, "a", "soon", "b"}},
			{"ERR value is not a valid float", []any{"ZADD", "q", "nan", "a"}},
			{"ERR value is not a valid float", []any{"ZADD", "q", "", "a"}},
			{"ERR XX and NX options at the same time", []any{"ZADD", "q", "NX", "XX", soon, "a"}},
			{"ERR GT, LT, and/or NX options at the same time", []any{"ZADD", "q", "GT", "NX", soon, "a"}},
			{"ERR INCR is not among", []any{"ZADD", "q", "INCR", 1, "a"}},
			{"ERR the score inf is no due time", []any{"ZADD", "q", "inf", "a"}},
			{"ERR the score -1 is no due time", []any{"ZADD", "q", -1, "a"}},
			{"ERR the score 1893456000000 is after the year 5000", []any{"ZADD", "q", 1893456000000, "a"}},
			{`ERR the key "a b" is no name of a queue`, []any{"ZADD", "a b", soon, "a"}},
			{`ERR the key "" is no name of a queue`, []any{"ZCARD", ""}},
			{"ERR the key", []any{"ZREM", strings.Repeat("k", 168), "a"}},
			{"ERR a member has 262145 bytes: a payload has 262144 at most",
				[]any{"ZADD", "q", soon, "a", soon, strings.Repeat("x", 256<<10+1)}},
			{"ERR min or max is not a float", []any{"ZRANGEBYSCORE", "q", "now", "inf"}},
			{"ERR syntax error", []any{"ZRANGEBYSCORE", "q", 0, 1, "LIMIT", 1}},
			{"ERR value is not an integer", []any{"ZRANGEBYSCORE", "q", 0, 1, "LIMIT", "a", 1}},
			{"ERR the range has more than", []any{"ZRANGEBYSCORE", "q", 0, 1, "LIMIT", 10_000, 1}},
			{"ERR value is out of range, must be positive", []any{"ZPOPMIN", "q", -1}},
			{"ERR DB index is out of range", []any{"SELECT", 1}},
			{"NOPROTO", []any{"HELLO", 4}},
			{"ERR unknown subcommand 'KILL'", []any{"CLIENT", "KILL"}},
			{"ERR Client names cannot contain", []any{"CLIENT", "SETNAME", "a b"}},
			{"ERR EXEC without MULTI", []any{"EXEC"}},
		} {
			got := c.ask(refused.words[0].(string), refused.words[1:]...)
			if !strings.HasPrefix(got, refused.begins) {
				t.Errorf("%v:\n%s\nwant %s", refused.words, clipped(got), refused.begins)
			}
		}
		c.want("0", "ZCARD", "q")
		c.want("[]", "ZRANGEBYSCORE", "q", "-inf", "inf")
		long := strings.Repeat("x", 256<<10)
		c.want("1", "ZADD", strings.Repeat("k", 167), soon, long)
		c.want("["+long+"]", "ZRANGEBYSCORE", strings.Repeat("k", 167), 0, "inf")
	})
}

func clipped(text string) string { return text[:min(len(text), 200)] }

// TestMilliseconds checks scores in milliseconds, and that those in seconds are refused rather than due at once.
func TestMilliseconds(t *testing.T) {
	simulate(t, 1, func(cfg *node.Config) { cfg.RedisScores = "milliseconds" }, func(t *testing.T, w *world) {
		c := w.conn(0)
		due := time.Now().Add(time.Hour).UnixMilli()
		c.want("1", "ZADD", "q", due, "a")
		c.want(fmt.Sprint(due), "ZSCORE", "q", "a")
		c.want("1", "ZADD", "q", fmt.Sprint(due, ".5"), "b")
		c.want(fmt.Sprint(due+1), "ZSCORE", "q", "b")
		c.want("[a]", "ZRANGEBYSCORE", "q", due, fmt.Sprint("(", due+1))
		if got := c.ask("ZADD", "q", due/1000, "c"); !strings.Contains(got, "before the year 1974 in milliseconds") {
			t.Error(got)
		}
		c.want("1", "ZADD", "q", 0, "now")
	})
}

// TestPipelines checks that a pipeline of many commands is answered in order, that its changes of one member are made
// in order, and that its ZADDs are few calls.
func TestPipelines(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		const n = 500
		for i := range n {
			assert.NoError(t, c.Send("ZADD", "q", at(time.Hour), i))
		}
		assert.NoError(t, c.Send("PING"))
		assert.NoError(t, c.Send("ZADD", "q", at(time.Hour), "x"))
		assert.NoError(t, c.Send("ZREM", "q", "x"))
		assert.NoError(t, c.Send("ZADD", "q", "bad", "x"))
		assert.NoError(t, c.Send("ZREM", "q", "x", "0"))
		assert.NoError(t, c.Flush())
		for i := range n {
			if answer, err := redis.Int(c.Receive()); err != nil || answer != 1 {
				t.Fatalf("%d: %d, %v", i, answer, err)
			}
		}
		var rest []string
		for range 5 {
			answer, err := c.Receive()
			if err != nil {
				answer = err
			}
			rest = append(rest, text(answer))
		}
		assert.EqualSlices(t, rest, []string{"PONG", "1", "1", "ERR value is not a valid float", "1"})
		c.want(fmt.Sprint(n-1), "ZCARD", "q")
		if batches := w.metric(`belfry_http_request_duration_seconds_count{method="POST",route="/v1/batch"`); batches > 20 {
			t.Errorf("%v batches for %d commands", batches, n)
		}
	})
}

// metric returns the sum of the metrics of node 0 that begin with a text.
func (w *world) metric(begin string) (sum float64) {
	w.t.Helper()
	resp, err := w.HTTP().Get(w.URL(0) + "/metrics")
	assert.NoError(w.t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	assert.NoError(w.t, err)
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, begin) {
			var v float64
			_, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v)
			assert.NoError(w.t, err)
			sum += v
		}
	}
	return sum
}

// TestWorkersClaimOnce has workers on all nodes remove the same due members: each is claimed once.
func TestWorkersClaimOnce(t *testing.T) {
	simulate(t, 3, nil, func(t *testing.T, w *world) {
		const members, workers = 60, 6
		c := w.conn(0)
		for i := range members {
			c.want("1", "ZADD", "q", at(time.Second), i)
		}
		time.Sleep(2 * time.Second)
		var mu sync.Mutex
		var claimed []string
		var all sync.WaitGroup
		for i := range workers {
			c := w.conn(i % 3)
			all.Go(func() {
				for {
					due, err := redis.Strings(c.Do("ZRANGEBYSCORE", "q", "-inf", at(0), "LIMIT", 0, 5))
					if err != nil || len(due) == 0 {
						assert.NoError(t, err)
						return
					}
					for _, member := range due {
						n, err := redis.Int(c.Do("ZREM", "q", member))
						assert.NoError(t, err)
						if n == 1 {
							mu.Lock()
							claimed = append(claimed, member)
							mu.Unlock()
						}
					}
				}
			})
		}
		all.Wait()
		slices.Sort(claimed)
		if len(claimed) != members || len(slices.Compact(claimed)) != members {
			t.Errorf("claimed %d times: %v", len(claimed), claimed)
		}
	})
}

// TestTransactionsAreRefused checks that no command between MULTI and EXEC is carried out.
func TestTransactionsAreRefused(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		c.want("1", "ZADD", "q", at(time.Hour), "kept")
		c.want("OK", "MULTI")
		c.want("QUEUED", "ZREM", "q", "kept")
		c.want("QUEUED", "ZCARD", "q")
		if got := c.ask("EXEC"); !strings.HasPrefix(got, "EXECABORT Transaction discarded: ") {
			t.Error(got)
		}
		c.want("1", "ZCARD", "q")
		c.want("OK", "MULTI")
		c.want("OK", "DISCARD")
		c.want("PONG", "PING")
	})
}

// TestConnectionCommands checks what clients send when they connect.
func TestConnectionCommands(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, w *world) {
		c := w.conn(0)
		c.want("PONG", "PING")
		c.want("hi", "PING", "hi")
		c.want("hi", "ECHO", "hi")
		c.want("OK", "SELECT", 0)
		c.want("OK", "CLIENT", "SETINFO", "LIB-NAME", "x")
		c.want("(nil)", "CLIENT", "GETNAME")
		c.want("OK", "CLIENT", "SETNAME", "worker")
		c.want("worker", "CLIENT", "GETNAME")
		if id, err := redis.Int(c.Do("CLIENT", "ID")); err != nil || id < 1 {
			t.Error(id, err)
		}
		if hello := c.ask("HELLO", 2, "SETNAME", "w2"); !strings.Contains(hello, "proto 2") {
			t.Error(hello)
		}
		c.want("w2", "CLIENT", "GETNAME")
		if info := c.ask("INFO"); !strings.Contains(info, "loading:0\r\n") {
			t.Error(info)
		}
		c.want("18", "COMMAND", "COUNT")
		c.want("[[zrem -3 [write] 1 1 1] (nil)]", "COMMAND", "INFO", "zrem", "eval")
		c.want("[]", "COMMAND", "DOCS")
		c.want("OK", "AUTH", "anything") // as the HTTP API while there are no keys
		c.want("OK", "QUIT")
		_, err := c.Do("PING")
		assert.Error(t, err, "the connection is still open")
	})
}
