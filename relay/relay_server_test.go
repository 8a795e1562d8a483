package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/internal/sqldb"
)

// receipts counts the occurrences of tasks that a consumer got. It is safe for concurrent use.
type receipts struct {
	mu   sync.Mutex
	seen map[string]map[string]bool // webhook ids by task
}

// consume takes the tasks of a queue until the test ends.
func consume(t *testing.T, b *belfry, queue string) *receipts {
	t.Helper()
	r := &receipts{seen: map[string]map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		assert.Equal(t, b.Consume(ctx, queue, client.ConsumeOptions{Concurrency: 50},
			func(_ context.Context, task *client.Leased) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.seen[task.ID] == nil {
					r.seen[task.ID] = map[string]bool{}
				}
				r.seen[task.ID][task.WebhookID] = true
				return nil
			}), nil)
	})
	t.Cleanup(func() { stop(); work.Wait() })
	return r
}

func (r *receipts) of(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen[id])
}

// emptied waits until a queue has no unfinished tasks.
func emptied(t *testing.T, b *belfry, queue string) {
	t.Helper()
	importstest.Await(t, func() error {
		q, err := b.Queue(t.Context(), queue)
		if err == nil && q.Counts.Unfinished() > 0 {
			err = fmt.Errorf("%+v", q.Counts)
		}
		return err
	})
}

// A relay that is killed after the cluster has answered, and before the database has recorded it, leaves its rows to
// the next one, which changes nothing, even if the task was delivered in between.
func TestServerKilledBeforeCommit(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		b := startBelfry(t, 1)
		got := consume(t, b, "now")
		stop, held := s.holdUpdates(t)
		s.insert("cancel", "first", nil) // InnoDB's search for old rows locks the row behind them for an instant
		s.insert("schedule", "a", `{"delay": "0s", "queue": "now"}`)
		s.insert("schedule", "b", `{"delay": "48h"}`)
		s.insert("schedule", "c", `{"fire_at": "2040-01-01T00:00:00Z"}`)
		first, _ := b.relay(s)
		importstest.Await(t, func() error {
			if got.of("a") != 1 || held() == 0 {
				return errors.New("the relay is not where it shall be killed")
			}
			return nil
		})
		assert.NoError(t, first.Signal(syscall.SIGKILL))
		<-first.Done()
		emptied(t, b, "now")
		before, err := b.Get(t.Context(), "b")
		assert.NoError(t, err)
		stop()
		assert.Equal(t, s.number(`SELECT COUNT(*) FROM {T} WHERE state = 'waiting'`), 4, "rows that wait")
		b.relay(s)
		s.done(0)
		after, err := b.Get(t.Context(), "b")
		assert.NoError(t, err)
		assert.Equal(t, after.Revision, before.Revision, "the task was scheduled anew")
		assert.EqualSlices(t, s.states(), []string{
			"first relayed not_found", "a relayed created", "b relayed created", "c relayed created",
		})
		emptied(t, b, "now")
		assert.Equal(t, got.of("a"), 1, "occurrences of a")
	})
}

// holdUpdates makes changes of rows wait until stop is called. held returns the number of those that wait.
func (s *server) holdUpdates(t *testing.T) (stop func(), held func() int) {
	t.Helper()
	conn, err := s.Conn(t.Context())
	assert.NoError(t, err)
	do := func(statement string) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), s.text(statement))
		assert.NoError(t, err, "%s", statement)
	}
	if s.Dialect == sqldb.Postgres {
		do(`SELECT pg_advisory_lock(7)`)
		do(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END $$`)
		do(`CREATE TRIGGER hold BEFORE UPDATE ON {T} FOR EACH ROW EXECUTE FUNCTION hold()`)
		held = func() int {
			return s.number(`SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`)
		}
	} else {
		do(`DO GET_LOCK('hold', 1)`)
		do(`CREATE TRIGGER hold BEFORE UPDATE ON {T} FOR EACH ROW BEGIN
			DO GET_LOCK('hold', 3600); DO RELEASE_LOCK('hold'); END`)
		held = func() int {
			return s.number(`SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'`)
		}
	}
	return func() {
		t.Helper()
		importstest.Await(t, func() error { // the killed relay's session ends when it gets the lock
			if s.Dialect == sqldb.Postgres {
				do(`SELECT pg_advisory_unlock_all()`)
			} else {
				do(`DO RELEASE_LOCK('hold')`)
			}
			if n := held(); n > 0 {
				return fmt.Errorf("%d sessions wait still", n)
			}
			return nil
		})
		if s.Dialect == sqldb.Postgres {
			do(`DROP TRIGGER hold ON {T}`)
		} else {
			do(`DROP TRIGGER hold`)
		}
		assert.NoError(t, conn.Close())
	}, held
}

// done waits until at most this number of rows wait.
func (s *server) done(most int) {
	s.t.Helper()
	importstest.Await(s.t, func() error {
		var n int
		err := s.QueryRow(s.text(`SELECT COUNT(*) FROM {T} WHERE state = 'waiting'`)).Scan(&n)
		if err == nil && n > most {
			err = fmt.Errorf("%d rows wait", n)
		}
		return err
	})
}

// Three relays are killed again and again while transactions insert rows and commit or roll back. The database and a
// node are killed once, too. In the end the tasks are those of the committed rows, each once, and cancels hold.
func TestServerSiege(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		kills := 12
		if gated.Has(gated.Long) {
			kills = 200
		}
		b := startBelfry(t, 3)
		got := consume(t, b, "now")
		gone := make([][]string, 4) // ids of transactions that were rolled back, by writer
		var writers sync.WaitGroup
		stop := make(chan struct{})
		for w := range gone {
			writers.Go(func() { gone[w] = write(t, s, w, stop) })
		}
		end := sync.OnceFunc(func() { close(stop); writers.Wait() })
		defer end()
		siege(t, s, b, kills)
		end()
		s.done(0)
		emptied(t, b, "now")
		judgeSiege(t, s, b, got)
		for _, ids := range gone {
			for _, id := range ids {
				if _, err := b.Get(t.Context(), id); !errors.Is(err, client.ErrNotFound) {
					t.Errorf("%s of a transaction that was rolled back: %v", id, err)
				}
			}
		}
	})
}

// siege runs relays, and kills one after each hundred rows.
func siege(t *testing.T, s *server, b *belfry, kills int) {
	t.Helper()
	start := func() *child.Child { p, _ := b.relay(s, "--batch", "40"); return p }
	relays := []*child.Child{start(), start(), start()}
	last := 0
	for kill := range kills {
		importstest.Await(t, func() error {
			var n int
			err := s.QueryRow(s.text(`SELECT COUNT(*) FROM {T} WHERE state <> 'waiting'`)).Scan(&n)
			if err == nil && n < last+100 {
				err = fmt.Errorf("%d rows are done", n)
			}
			if err == nil {
				last = n
			}
			return err
		})
		i := kill % len(relays)
		assert.NoError(t, relays[i].Signal(syscall.SIGKILL))
		<-relays[i].Done()
		relays[i] = start()
		switch kill {
		case 4:
			s.kill()
			s.start()
		case 8:
			assert.NoError(t, b.cluster.Kill("node-2"))
			assert.NoError(t, b.cluster.StartNode(t.Context(), "node-2"))
		}
	}
}

// write makes transactions of one writer, which has tasks of its own, until stop is closed. It returns the ids that were
// rolled back.
func write(t *testing.T, s *server, w int, stop <-chan struct{}) (gone []string) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return gone
		default:
		}
		fresh := fmt.Sprintf("w%d-%d", w, i)
		hot := fmt.Sprintf("w%d-hot-%d", w, rand.N(10))
		later := func(id string) [3]any {
			return [3]any{"schedule", id, fmt.Sprintf(`{"fire_at": "2040-01-01T00:00:00Z", "payload": "%d"}`, i)}
		}
		cancel := func(id string) [3]any { return [3]any{"cancel", id, nil} }
		var rows [][3]any
		switch rand.N(5) {
		case 0:
			rows = append(rows, [3]any{"schedule", fresh + "-now", `{"delay": "0s", "queue": "now"}`})
		case 1:
			rows = append(rows, [3]any{"schedule", fresh + "-soon", `{"delay": "1s", "queue": "now"}`}, cancel(fresh+"-soon"))
		case 2:
			rows = append(rows, later(fresh), later(hot))
		case 3:
			rows = append(rows, later(hot), cancel(hot))
		case 4:
			rows = append(rows, cancel(hot), later(hot), later(fresh), cancel(fresh))
		}
		commit := rand.N(10) < 7
		importstest.Await(t, func() error { // repeats a transaction that the database lost; its rows may come twice
			tx, err := s.Begin()
			if err != nil {
				return err
			}
			for _, r := range rows {
				if _, err := tx.Exec(s.text(insertRow), r[:]...); err != nil {
					return errors.Join(err, tx.Rollback())
				}
			}
			if commit {
				return tx.Commit()
			}
			_ = tx.Rollback() // a lost connection does the same
			return nil
		})
		if !commit {
			for _, r := range rows {
				if id := r[1].(string); strings.HasPrefix(id, fresh) {
					gone = append(gone, id)
				}
			}
		}
	}
}

// judgeSiege compares the tasks with the rows of the table.
func judgeSiege(t *testing.T, s *server, b *belfry, got *receipts) {
	t.Helper()
	type fate struct {
		op, payload string
		schedules   int
		cancelled   bool // by an answer
	}
	fates := map[string]*fate{}
	found, err := s.Query(s.text(`SELECT op, task_id, COALESCE(task, '{}'), state, answer FROM {T} ORDER BY id`))
	assert.NoError(t, err)
	rows := 0
	assert.NoError(t, each(found, func() error {
		var op, id, state, answer string
		var text []byte
		if err := found.Scan(&op, &id, &text, &state, &answer); err != nil {
			return err
		}
		rows++
		var task struct{ Payload json.RawMessage }
		f := fates[id]
		if f == nil {
			f = &fate{}
			fates[id] = f
		}
		f.op = op
		f.cancelled = f.cancelled || answer == "cancelled"
		if op == "schedule" {
			f.schedules++
			assert.NoError(t, json.Unmarshal(text, &task))
			f.payload = string(task.Payload)
		}
		assert.Equal(t, state, stateRelayed, "%s: %s", id, answer)
		return nil
	}))
	t.Logf("%d rows of %d tasks", rows, len(fates))
	for id, f := range fates {
		occurrences := got.of(id)
		switch {
		case strings.HasSuffix(id, "-now"):
			if occurrences < 1 || occurrences > f.schedules {
				t.Errorf("%s was delivered %d times for %d rows", id, occurrences, f.schedules)
			}
		case strings.HasSuffix(id, "-soon"):
			if f.schedules == 1 && occurrences > 1 || f.schedules == 1 && f.cancelled && occurrences > 0 {
				t.Errorf("%s was delivered %d times, cancelled: %v", id, occurrences, f.cancelled)
			}
		default:
			task, err := b.Get(t.Context(), id)
			switch {
			case errors.Is(err, client.ErrNotFound) && f.schedules == 0:
			case err != nil:
				t.Errorf("%s: %v", id, err)
			case f.op == "cancel" && task.State != client.StateCancelled:
				t.Errorf("%s is %s, and its last row cancels it", id, task.State)
			case f.op == "schedule" && (task.State != client.StateScheduled || string(task.Payload) != f.payload):
				t.Errorf("%s is %s with the payload %s; its last row has %s", id, task.State, task.Payload, f.payload)
			}
		}
	}
}

// A row is not taken while an older row of its task is in another transaction, or waits for its next try.
func TestServerOrder(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, id := range []string{"a", "a", "b", "a"} {
			s.insert("cancel", id, nil)
		}
		claimed := func(n int) (ids []int64, end func()) {
			t.Helper()
			tx, err := s.begin(t.Context())
			assert.NoError(t, err)
			rows, err := s.claim(t.Context(), tx, n)
			assert.NoError(t, err)
			for _, r := range rows {
				ids = append(ids, r.id)
			}
			return ids, func() { assert.NoError(t, tx.Rollback()) }
		}
		var silence string
		limit := map[sqldb.Dialect]string{sqldb.Postgres: "SHOW idle_in_transaction_session_timeout", sqldb.MySQL: "SELECT @@wait_timeout"}
		tx, err := s.begin(t.Context())
		assert.NoError(t, err)
		assert.NoError(t, tx.QueryRow(limit[s.Dialect]).Scan(&silence))
		assert.NoError(t, tx.Rollback())
		if silence != "1min" && silence != "60" {
			t.Errorf("the database ends a silent transaction after %s", silence)
		}
		first, endFirst := claimed(1)
		assert.EqualSlices(t, first, []int64{1})
		second, endSecond := claimed(10)
		assert.EqualSlices(t, second, []int64{3})
		endFirst()
		endSecond()

		// A locking statement of MySQL may see both rows of a transaction, and its subquery none of them.
		tx, err = s.begin(t.Context())
		assert.NoError(t, err)
		rows, err := s.oldest(t.Context(), tx, []row{{id: 2, taskID: "a"}, {id: 3, taskID: "b"}, {id: 4, taskID: "a"}})
		assert.NoError(t, err)
		if len(rows) != 1 || rows[0].id != 3 {
			t.Errorf("%v", rows)
		}
		assert.NoError(t, tx.Rollback())

		s.exec(`UPDATE {T} SET state_at = {now} + ` + seconds(time.Hour) + ` WHERE id = 1`)
		later, end := claimed(10)
		assert.EqualSlices(t, later, []int64{3}, "rows behind one that waits for its next try")
		end()
		s.exec(`UPDATE {T} SET state = 'relayed' WHERE id = 1`)
		next, end := claimed(10)
		assert.EqualSlices(t, next, []int64{2, 3})
		end()
	})
}

// Rows that the cluster refuses for good are marked with the problem, and hold up no others. An operator who mends such
// a row has it tried again. A delay counts from the row's insert, and the payload stays as it was.
func TestServerRefusals(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		b := startBelfry(t, 1)
		s.insert("schedule", "a b", `{"delay": "1h"}`)
		s.insert("schedule", "no-time", `{}`)
		s.insert("schedule", "null", nil)
		s.insert("schedule", "unknown", `{"delay": "1h", "fire": 1}`)
		s.insert("schedule", "nested", `{"delay": "1h", "target": {"uri": "http://shop.example/"}}`)
		s.insert("schedule", "id", `{"id": "other", "delay": "1h"}`)
		s.insert("cancel", "never", nil)
		s.insert("schedule", "never", `{"delay": "-1s"}`)
		s.insert("schedule", "good", "{\"delay\": \"1h\",\n \"payload\": {\"z\": 1.0, \"a\": 12345678901234567890}}")
		s.exec(`UPDATE {T} SET created_at = created_at - ` + seconds(30*time.Minute) + ` WHERE task_id = 'good'`)
		_, metrics := b.relay(s, "--batch", "4")
		s.done(0)
		want := []string{
			`a b refused 400 id has " " as character 2`,
			"no-time refused task needs exactly one of fire_at and delay",
			"null refused task needs exactly one of fire_at and delay",
			"unknown refused task: fire is not a field",
			"nested refused task: target.uri is not a field",
			`id refused task: id is "other", and not the task_id of the row`,
			"never relayed not_found",
			"never refused task: delay is negative",
			"good relayed created",
		}
		for i, line := range s.states() {
			t.Log(line)
			if !strings.HasPrefix(line, want[i]) {
				t.Errorf("%s\nwant %s", line, want[i])
			}
		}
		task, err := b.Get(t.Context(), "good")
		assert.NoError(t, err)
		assert.Equal(t, string(task.Payload), `{"z": 1.0, "a": 12345678901234567890}`)
		if d := time.Until(task.FireAt); d > 31*time.Minute || d < time.Minute {
			t.Errorf("a delay of an hour in a row of half an hour ago ends in %v", d)
		}
		assert.Equal(t, status(t, metrics+"/readyz"), 200)
		s.exec(`UPDATE {T} SET state = 'waiting', task = '{"delay": "2h"}' WHERE task_id = 'no-time'`)
		s.done(0)
		_, err = b.Get(t.Context(), "no-time")
		assert.NoError(t, err)
	})
}

// PostgreSQL wakes a relay that does not poll, also after the connection was lost.
func TestServerNotifies(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		if s.Postgres == nil {
			t.Skip("the database does not notify")
		}
		b := startBelfry(t, 1)
		b.relay(s, "--poll", "24h")
		for range 2 {
			for range 3 {
				s.insert("cancel", "a", nil)
				s.done(0)
			}
			s.kill()
			s.start()
		}
	})
}

// Rows wait while the cluster or the database is away. /readyz says so. Relayed rows are deleted at once without --keep,
// and a relay that is asked to stop does so.
func TestServerOutages(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		b := startBelfry(t, 1)
		assert.NoError(t, b.cluster.Kill("node-1"))
		s.insert("schedule", "a", `{"delay": "1h"}`)
		process, metrics := b.relay(s, "--keep", "0s", "--timeout", "1s")
		answers := func(want int) {
			t.Helper()
			importstest.Await(t, func() error {
				if got := status(t, metrics+"/readyz"); got != want {
					return fmt.Errorf("/readyz answers %d", got)
				}
				return nil
			})
		}
		importstest.Await(t, func() error {
			if got := s.number(`SELECT COUNT(*) FROM {T} WHERE answer = 'no answer'`); got != 1 {
				return errors.New("the row was not tried")
			}
			return nil
		})
		answers(503)
		assert.NoError(t, b.cluster.StartNode(t.Context(), "node-1"))
		answers(200)
		s.done(0)
		assert.Equal(t, s.number(`SELECT COUNT(*) FROM {T}`), 0, "rows")
		s.kill()
		answers(503)
		s.start()
		answers(200)
		s.insert("schedule", "b", `{"delay": "1h"}`)
		s.done(0)
		for _, id := range []string{"a", "b"} {
			_, err := b.Get(t.Context(), id)
			assert.NoError(t, err)
		}
		assert.Equal(t, status(t, metrics+"/healthz"), 200)
		assert.NoError(t, process.Signal(syscall.SIGTERM))
		<-process.Done()
		assert.NoError(t, process.Err())
	})
}

// Rows that were relayed long ago are deleted, and refused ones stay. The backlog counts what waits.
func TestServerPurge(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for range purgeMost + 5 {
			s.insert("cancel", "a", nil)
		}
		s.exec(`UPDATE {T} SET state = 'relayed', state_at = {now} - ` + seconds(2*time.Hour))
		for _, id := range []string{"new", "refused", "waiting"} {
			s.insert("cancel", id, nil)
		}
		s.exec(`UPDATE {T} SET state = 'relayed' WHERE task_id = 'new'`)
		s.exec(`UPDATE {T} SET state = 'refused', state_at = {now} - ` + seconds(2*time.Hour) + ` WHERE task_id = 'refused'`)
		s.exec(`UPDATE {T} SET created_at = {now} - ` + seconds(time.Minute) + ` WHERE task_id = 'waiting'`)
		r := New(Config{Database: s.Database, Keep: time.Hour})
		assert.NoError(t, r.purge(t.Context()))
		assert.EqualSlices(t, s.states(), []string{"new relayed", "refused refused", "waiting waiting"})
		backlog, err := s.count(t.Context())
		assert.NoError(t, err)
		if backlog.waiting != 1 || backlog.refused != 1 || backlog.lag < time.Minute || backlog.lag > time.Hour {
			t.Errorf("%+v", backlog)
		}
	})
}
