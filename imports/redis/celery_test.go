package redis

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// celeryOf returns a source whose nodes reach the Redis by another address.
func celeryOf() *Celery {
	return &Celery{&Source{sets: []set{{key: "celery"}}}, []string{"celery"}, "redis://r:6379/1"}
}

func TestCeleryMessages(t *testing.T) {
	message := func(eta, more string) string {
		return `{"body": "W10=", "headers": {"id": "a-1", "task": "t.job", "eta": ` + eta + `}, "properties": {` + more + `}}`
	}
	for text, want := range map[string]string{
		message(`"2030-01-01T11:00:00.000100+01:00"`, ``): "celery:a-1 2030-01-01T10:00:00.001Z celery " +
			"redis://r:6379/1?list=celery&push=left",
		message(`"2030-01-01T10:00:00"`, ``):      `! the ETA: "2030-01-01T10:00:00" `,
		message(`"2030-01-01T10:00:00Z\xff"`, ``): "! " + errNoText.Error(),
		message(`null`, ``):                       "stays",
		`{"body": "e30=", "headers": {}}`:         "! " + errNotCelery.Error(),
		`{`:                                       "! the message: unexpected end",
	} {
		h := held{Queue: "celery", List: "celery", Message: strings.ReplaceAll(text, `\xff`, "\xff"), value: "v"}
		if got := shownCelery(h); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for priority, list := range map[string]string{
		`"priority": 2`: "celery", `"priority": 3`: "celery%06%163", `"priority": 255`: "celery%06%169", ``: "celery",
	} {
		value := `[` + message(`"2030-01-01T10:00:00Z"`, priority) + `, "", "celery"]`
		assert.Equal(t, celeryOf().unackedValue(held{tag: "t", value: value}, func(h held) error {
			assert.Contains(t, shownCelery(h), "?list="+list+"&push=left")
			return nil
		}), nil)
	}
	routed := `[` + message(`"2030-01-01T10:00:00Z"`, ``) + `, "topics", "celery"]`
	assert.Equal(t, celeryOf().unackedValue(held{tag: "t", value: routed}, func(h held) error {
		assert.Equal(t, shownCelery(h), "! "+errRouted.Error())
		return nil
	}), nil)
	other := `[` + message(`"2030-01-01T10:00:00Z"`, ``) + `, "", "other"]`
	assert.Equal(t, celeryOf().unackedValue(held{tag: "t", value: other}, func(held) error { return errEnough }), nil)
}

// shownCelery returns the record of a message in one line.
func shownCelery(h held) string {
	r, delayed := celeryOf().record(h)
	switch {
	case !delayed:
		return "stays"
	case r.Err != nil:
		return "! " + r.Err.Error()
	}
	due := r.Task.FireAt.Format(time.RFC3339Nano)
	return fmt.Sprintf("%s %s %s %s", r.Task.ID, due, r.Task.Queue, r.Task.Target.URL)
}

// A claim takes messages out of a list and out of unacked, and two like messages one after the other. A message that is
// given back is the next one that a worker takes.
func TestCeleryServerClaims(t *testing.T) {
	r := startRedis(t)
	message := func(id string) string {
		return `{"headers": {"id": "` + id + `", "task": "t", "eta": "2030-01-01T10:00:00Z"}}`
	}
	for _, id := range []string{"twice", "twice", "list", "none"} {
		r.ask("LPUSH", "celery", message(id))
	}
	for _, tag := range []string{"tag", "gone"} {
		r.ask("HSET", "unacked", tag, `[`+message(tag)+`, "", "celery"]`)
		r.ask("ZADD", "unacked_index", 1, tag)
	}
	s, err := OpenCelery(t.Context(), Options{URL: r.url}, "")
	assert.NoError(t, err)
	defer s.Close()
	read := func() (records []imports.Record, keys string) {
		for record, err := range s.Records(t.Context()) {
			assert.NoError(t, err)
			assert.NoError(t, record.Err)
			records = append(records, record)
			keys += strings.TrimPrefix(record.Key, "celery:") + map[bool]string{true: "* ", false: " "}[record.Claimed]
		}
		return records, keys
	}
	records, keys := read()
	assert.Equal(t, keys, "gone tag twice twice list none ")
	r.ask("HDEL", "unacked", "gone")
	r.ask("LREM", "celery", 1, message("none"))
	had, err := s.Claim(t.Context(), records)
	assert.NoError(t, err)
	assert.EqualSlices(t, had, []bool{false, true, true, false, true, false})
	claimed, keys := read()
	assert.Equal(t, keys, "list* tag* twice* twice ")
	assert.NoError(t, s.Finish(t.Context(), claimed[:1]))
	assert.NoError(t, s.GiveBack(t.Context(), claimed[1:3]))
	_, keys = read()
	assert.Equal(t, keys, "twice tag twice ")
	assert.EqualSlices(t, r.keys("*"), []string{"celery", "unacked_index"})
}

// A real worker takes tasks with an ETA, and is stopped or killed. Their messages are moved, and a worker that is started
// again runs each once, at its ETA.
func TestCeleryServer(t *testing.T) {
	importstest.Need(t, "celery")
	for name, end := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) { moveCelery(t, end) })
	}
}

func moveCelery(t *testing.T, end syscall.Signal) {
	r := startRedis(t)
	addr, _, _ := strings.Cut(strings.TrimPrefix(r.url, "redis://:secret@"), "/")
	b := importstest.Start(t, 1, importstest.Brokers(t, "redis://"+addr+": {password: secret}\n")...)
	python := os.Getenv("BELFRY_REAL_CELERY")
	env := append(os.Environ(), "CELERY_BROKER="+r.url)
	add := func(numbers ...int) { // the first number, their count, and the seconds until they are due
		cmd := exec.CommandContext(t.Context(), python, "realcelery/tasks.py")
		for _, n := range numbers {
			cmd.Args = append(cmd.Args, fmt.Sprint(n))
		}
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
	work := func() *child.Child {
		return importstest.Serve(t, child.Config{
			Command: []string{python, "-m", "celery", "-A", "tasks", "worker", "-P", "solo", "-Q", "celery,reports",
				"--without-gossip", "--without-mingle"},
			Dir: "realcelery", Env: env,
		}, func() error { return nil })
	}
	size := func(command, key string) int {
		n, err := redis.Int(r.ask(command, key), nil)
		assert.NoError(t, err)
		return n
	}
	add(0, 5, 0)      // runs at once
	add(5, 40, 30)    // due while the test waits
	add(45, 10, 3600) // due in an hour
	worker := work()
	importstest.Await(t, func() error {
		if held, ran := size("HLEN", "unacked"), size("LLEN", "ran"); held != 50 || ran != 5 {
			return fmt.Errorf("%d held, %d ran", held, ran)
		}
		return nil
	})
	args := []string{"celery", r.url, "celery", "reports", "--move"}
	_, code := b.Import(args...)
	assert.Equal(t, code, 1, "exit status beside a worker")
	assert.Equal(t, size("HLEN", "unacked"), 50)
	assert.NoError(t, worker.SignalGroup(end))
	<-worker.Done()
	add(55, 5, 3600) // no worker has seen them
	add(60, 5, 0)

	totals, code := b.Import(args...)
	assert.Equal(t, totals, importstest.Sums(55, 55, 0, 0, 0, 0, 55))
	assert.Equal(t, code, 0, "exit status")
	assert.Equal(t, size("HLEN", "unacked")+size("ZCARD", "unacked_index"), 0, "unacked")
	assert.Equal(t, size("LLEN", "celery")+size("LLEN", "reports\x06\x163"), 5, "messages without an ETA")
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)

	work()
	importstest.Await(t, func() error {
		if ran := size("LLEN", "ran"); ran < 50 {
			return fmt.Errorf("%d ran", ran)
		}
		return nil
	})
	ran, err := redis.Strings(r.ask("LRANGE", "ran", 0, -1), nil)
	assert.NoError(t, err)
	seen := map[int]bool{}
	for _, line := range ran {
		var number, late int
		_, err := fmt.Sscan(line, &number, &late)
		assert.NoError(t, err, "%s", line)
		if seen[number] || late < 0 {
			t.Errorf("%s: it ran before, or too early", line)
		}
		seen[number] = true
	}
	assert.Equal(t, len(seen), 50)
	importstest.Await(t, func() error { // 12 tasks of this queue are due in an hour
		q, err := b.Queue(t.Context(), "celery")
		if n := q.Counts.Unfinished(); err == nil && n != 12 {
			err = fmt.Errorf("%d tasks are unfinished", n)
		}
		return err
	})
}
