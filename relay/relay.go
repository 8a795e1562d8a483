package relay

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/internal/wait"
)

// Config describes a Relay. Database and Client are required.
type Config struct {
	Database *Database
	Client   *client.Client
	Batch    int           // most rows of a transaction; 0: 500
	Poll     time.Duration // pause before the next look for rows; 0: a second
	Keep     time.Duration // how long relayed rows stay in the table; 0: they are deleted at once
	Logger   *slog.Logger  // nil: nothing is logged
}

// MaxBatch is the largest Config.Batch.
const MaxBatch = 10_000

const (
	retryAfter   = 5 * time.Second  // pause of a row without a final answer
	sendTime     = 20 * time.Second // most for the answers to a batch; the rows are locked meanwhile
	databaseTime = 20 * time.Second // most for the statements of a batch, and for any other statement
	watchEvery   = 5 * time.Second  // between two counts of the backlog
	purgeEvery   = time.Minute
	minBackoff   = 100 * time.Millisecond // after the first of several failures
	maxBackoff   = 15 * time.Second
)

// The states of a row.
const (
	stateWaiting = "waiting"
	stateRelayed = "relayed"
	stateRefused = "refused"
)

// Relay carries rows to a cluster.
type Relay struct {
	Config
	metrics *metrics
	wake    chan struct{} // capacity 1: rows have come

	mu      sync.Mutex
	trouble error // of the last batch; nil: none
}

// New returns a relay, which does nothing before Run.
func New(cfg Config) *Relay {
	cfg.Batch = cmp.Or(cfg.Batch, 500)
	cfg.Poll = cmp.Or(cfg.Poll, time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Relay{
		Config: cfg, metrics: newMetrics(), wake: make(chan struct{}, 1), trouble: errors.New("no row was looked for yet"),
	}
}

// Run relays rows until ctx ends. It returns after the batch in progress. Failures of the database and of the cluster
// are waited out.
func (r *Relay) Run(ctx context.Context) {
	var parts sync.WaitGroup
	if r.Database.Postgres != nil {
		parts.Go(func() { r.repeat(ctx, "listen", 0, func() error { return r.Database.await(ctx, r.wake) }) })
	}
	parts.Go(func() { r.repeat(ctx, "count", watchEvery, func() error { return r.count(ctx) }) })
	if r.Keep > 0 {
		parts.Go(func() { r.repeat(ctx, "purge", purgeEvery, func() error { return r.purge(ctx) }) })
	}
	r.repeat(ctx, "relay", 0, func() error {
		n, err := r.relay(ctx)
		r.note(err)
		if n == 0 && err == nil {
			r.rest(ctx)
		}
		return err
	})
	parts.Wait()
}

// repeat calls work until ctx ends, with a pause after each call, and a growing one after failures.
func (r *Relay) repeat(ctx context.Context, name string, pause time.Duration, work func() error) {
	for backoff := minBackoff; ctx.Err() == nil; {
		err := work()
		if err == nil {
			backoff = minBackoff
			wait.For(ctx, pause)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.metrics.failures.WithLabelValues(name).Inc()
		r.Logger.Warn("the relay will try again", "work", name, "err", err, "in", backoff)
		wait.For(ctx, backoff/2+rand.N(backoff/2))
		backoff = min(2*backoff, maxBackoff)
	}
}

// rest waits for the next look for rows.
func (r *Relay) rest(ctx context.Context) {
	timer := time.NewTimer(r.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-timer.C:
	}
}

func (r *Relay) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = err
}

func (r *Relay) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	b, err := r.Database.count(ctx)
	if err == nil {
		r.metrics.set(b)
	}
	return err
}

func (r *Relay) purge(ctx context.Context) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, databaseTime)
		n, err := r.Database.purge(bounded, r.Keep)
		cancel()
		if err != nil || n < purgeMost {
			return err
		}
	}
}

// relay carries one batch, and returns the number of its rows. It returns an error if the cluster gave no final answer
// to any of them. The end of ctx does not interrupt it.
func (r *Relay) relay(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime+databaseTime)
	defer cancel()
	tx, err := r.Database.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	rows, err := r.Database.claim(ctx, tx, r.Batch)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	verdicts, trouble := r.send(ctx, rows)
	if err := r.record(ctx, tx, rows, verdicts); err != nil {
		return 0, err
	}
	return len(rows), trouble
}

// send sends rows to the cluster and returns the verdict on each. The error is that of the cluster if no row got a
// final answer.
func (r *Relay) send(ctx context.Context, rows []row) ([]verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	verdicts := make([]verdict, len(rows))
	var ops []client.Op
	var sent []int // indexes of the rows that the cluster sees
	for i := range rows {
		op, err := r.op(&rows[i])
		if err != nil {
			verdicts[i] = verdict{stateRefused, err.Error()}
			continue
		}
		ops, sent = append(ops, op), append(sent, i)
	}
	next, final := 0, len(rows)-len(sent)
	var trouble error
	for result := range r.Client.Batch(ctx, func(yield func(client.Op) bool) {
		for _, op := range ops {
			if !yield(op) {
				return
			}
		}
	}) {
		i := sent[next]
		next++
		verdicts[i] = judge(rows[i].op, &result)
		if verdicts[i].state == stateWaiting {
			trouble = result.Err
		} else {
			final++
		}
	}
	if final > 0 {
		if trouble != nil {
			r.Logger.Warn("rows without a final answer wait", "rows", len(rows)-final, "err", trouble)
		}
		trouble = nil
	}
	return verdicts, trouble
}

// record writes the verdicts on rows, and commits them.
func (r *Relay) record(ctx context.Context, tx *sql.Tx, rows []row, verdicts []verdict) error {
	groups := map[verdict][]int64{}
	for i, v := range verdicts {
		groups[v] = append(groups[v], rows[i].id)
	}
	for v, ids := range groups {
		if err := r.Database.record(ctx, tx, v, ids, r.Keep > 0); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	for i, v := range verdicts {
		r.metrics.rows.WithLabelValues(v.state).Inc()
		if v.state == stateRefused {
			r.Logger.Error("a row was refused for good", "row", rows[i].id, "task", rows[i].taskID, "problem", v.answer)
		}
	}
	return nil
}

// op returns the operation of a row. The key is the row's alone, even if the table is made anew.
func (r *Relay) op(w *row) (client.Op, error) {
	key := client.WithKey(fmt.Sprintf("%s/%d/%d", r.Database.table, w.id, w.createdAt.UnixMicro()))
	if w.op == "cancel" {
		return client.CancelOp(w.taskID, key), nil
	}
	t, err := w.read()
	return client.ScheduleOp(t, key), err
}

var (
	errDue      = errors.New("task needs exactly one of fire_at and delay")
	errNegative = errors.New("task: delay is negative (limit 0s)")
)

// read reads the task of a row as strictly as the API. A delay becomes an instant, so that the time for which the row
// waits does not count, and a repeat is the same call.
func (w *row) read() (t client.Task, err error) {
	if len(w.task) == 0 {
		return t, errDue
	}
	var seen contract.Set
	in := contract.NewReader(w.task)
	if err := in.Root(&contract.PutObject, &seen, in.SkipMember); err != nil {
		return t, fmt.Errorf("task: %w", err)
	}
	if seen.Has(contract.FireAt) == seen.Has(contract.Delay) {
		return t, errDue
	}
	if err := t.UnmarshalJSON(w.task); err != nil {
		return t, fmt.Errorf("task: %w", cmp.Or(errors.Unwrap(err), err)) // without the words about an answer
	}
	if t.Delay < 0 {
		return t, errNegative
	}
	if seen.Has(contract.Delay) {
		t.FireAt, t.Delay = w.createdAt.Add(t.Delay), 0
	}
	if t.ID != "" && t.ID != w.taskID {
		return t, fmt.Errorf("task: id is %q, and not the task_id of the row", t.ID)
	}
	t.ID = w.taskID
	_, err = t.MarshalJSON() // shows what the client cannot send
	return t, err
}

// verdict is what becomes of a row.
type verdict struct{ state, answer string }

// judge returns the verdict on a row by the answer to its operation.
func judge(op string, result *client.Result) verdict {
	var refusal *client.Error
	switch {
	case result.Err == nil && op == "cancel":
		return verdict{stateRelayed, string(result.Outcome)}
	case result.Err == nil && result.Status == http.StatusCreated:
		return verdict{stateRelayed, "created"}
	case result.Err == nil:
		return verdict{stateRelayed, "replaced"}
	case !errors.As(result.Err, &refusal):
		return verdict{stateWaiting, "no answer"}
	case op == "cancel" && refusal.Type == contract.ProblemPrefix+contract.TaskNotFound:
		return verdict{stateRelayed, "not_found"}
	case isFinal(refusal):
		return verdict{stateRefused, refusal.Error()}
	}
	return verdict{stateWaiting, refusal.Error()}
}

// isFinal reports whether a refusal is about the row alone, so that the same call would be refused again.
func isFinal(refusal *client.Error) bool {
	switch refusal.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusForbidden: // a quota on the size of payloads; the rights of a key may change
		return errors.Is(refusal, client.ErrQuotaExceeded)
	}
	return false
}
