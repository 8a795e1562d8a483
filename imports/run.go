package imports

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/belfryhq/belfry/client"
)

// Options are the settings of a Run. The zero value copies as fast as the cluster takes the tasks.
type Options struct {
	Move      bool          // the records leave the source, which must be a Mover
	PerSecond int           // most records a second; 0: no limit
	Verify    bool          // compare the tasks with their records at the end; needs about 150 bytes of memory a task
	Progress  func(Totals)  // is called after each chunk; nil: nothing is
	Report    func(Trouble) // is called for each record that Totals.Failed counts; nil: nothing is
}

// Totals count the records of an import: Read is the sum of Scheduled, Existing, Conflicts, Left and Refused.
type Totals struct {
	Read      int           `json:"read"`
	Scheduled int           `json:"scheduled"`
	Existing  int           `json:"existing"`  // the cluster had the task already, of an earlier run
	Conflicts int           `json:"conflicts"` // the cluster has another task of that id, and keeps it
	Left      int           `json:"left"`      // a worker of the source took or changed the record meanwhile
	Refused   int           `json:"refused"`   // the source or the cluster cannot make a task of the record
	Verified  *Verification `json:"verified,omitempty"`
}

// Failed returns the number of records without an equal task in the cluster.
func (t Totals) Failed() int {
	n := t.Conflicts + t.Refused
	if t.Verified != nil {
		n += t.Verified.Missing + t.Verified.Different
	}
	return n
}

// Trouble is the reason why a record is not in the cluster as the source has it.
type Trouble struct {
	Key    string `json:"key,omitempty"` // of the record; empty: a Verification found it
	ID     string `json:"id,omitempty"`  // of the task; empty: the record has none
	Reason string `json:"reason"`
	Text   string `json:"text,omitempty"` // of the record
}

// chunkSize is the largest number of records that are claimed at the same time. The client sends as many lines in
// parallel.
const chunkSize = 4000

var errKeeps = errors.New("the source cannot give its records away: copy them")

// Run imports the records of a source. An error ends it, and beside the error it returns the totals so far. The next
// run goes on. A ctx that ends lets the chunk in progress come to its end.
func Run(ctx context.Context, s Source, c *client.Client, o Options) (Totals, error) {
	r := &run{Options: o, c: c}
	if o.Move {
		var movable bool
		if r.mover, movable = s.(Mover); !movable {
			return r.totals, errKeeps
		}
	}
	size := chunkSize
	if o.PerSecond > 0 {
		size = min(size, o.PerSecond)
		r.pace = rate.NewLimiter(rate.Limit(o.PerSecond), size)
	}
	if o.Verify {
		r.ledger = newLedger()
	}
	err := eachChunk(ctx, s, size, r.take)
	if err == nil && o.Verify {
		r.totals.Verified, err = r.ledger.check(ctx, c, r.report)
	}
	return r.totals, err
}

// Preview reads a source, and changes nothing. Scheduled counts the records of which tasks can be made; show is called
// with each.
func Preview(ctx context.Context, s Source, show func(*Record), report func(Trouble)) (Totals, error) {
	r := &run{Options: Options{Report: report}}
	err := r.scan(ctx, s, &r.totals.Scheduled, show)
	return r.totals, err
}

// Check compares the tasks of the cluster with the records of a source. Existing counts the compared records.
func Check(ctx context.Context, s Source, c *client.Client, report func(Trouble)) (Totals, error) {
	r := &run{Options: Options{Report: report}, ledger: newLedger()}
	err := r.scan(ctx, s, &r.totals.Existing, r.ledger.add)
	if err == nil {
		r.totals.Verified, err = r.ledger.check(ctx, c, r.report)
	}
	return r.totals, err
}

// scan calls each with the records of a source that were converted, and counts them in n.
func (r *run) scan(ctx context.Context, s Source, n *int, each func(*Record)) error {
	return eachChunk(ctx, s, chunkSize, func(_ context.Context, records []Record) error {
		ready := r.convertible(records)
		for i := range ready {
			r.count(n)
			each(&ready[i])
		}
		return nil
	})
}

// eachChunk calls take with the records of a source, size at most at once. ctx ends the reading, and no take.
func eachChunk(ctx context.Context, s Source, size int, take func(context.Context, []Record) error) error {
	chunk := make([]Record, 0, size)
	flush := func() error {
		if len(chunk) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		err := take(context.WithoutCancel(ctx), chunk)
		chunk = chunk[:0]
		return err
	}
	for record, err := range s.Records(ctx) {
		if err != nil {
			return err
		}
		if chunk = append(chunk, record); len(chunk) == size {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// run is an import in progress.
type run struct {
	Options
	c      *client.Client
	mover  Mover         // nil: the source keeps its records
	pace   *rate.Limiter // nil: no limit
	ledger *ledger       // nil: nothing is compared
	totals Totals
}

// take imports a chunk.
func (r *run) take(ctx context.Context, records []Record) error {
	if r.pace != nil {
		if err := r.pace.WaitN(ctx, len(records)); err != nil {
			return err
		}
	}
	ready, err := r.claim(ctx, r.convertible(records))
	if err != nil {
		return err
	}
	ready, err = r.withoutFired(ctx, ready)
	var done, back []Record
	if err == nil {
		done, back, err = r.schedule(ctx, ready)
	}
	if len(done) > 0 && r.mover != nil {
		err = errors.Join(err, r.mover.Finish(ctx, done))
	}
	if len(back) > 0 && r.mover != nil {
		err = errors.Join(err, r.mover.GiveBack(ctx, back))
	}
	if r.Progress != nil {
		r.Progress(r.totals)
	}
	return err
}

// count counts a record in n, which is a field of the totals.
func (r *run) count(n *int) {
	r.totals.Read++
	*n++
}

// convertible returns the records that were converted, and counts the others.
func (r *run) convertible(records []Record) []Record {
	ready := records[:0]
	for _, record := range records {
		switch {
		case record.Err == nil:
			ready = append(ready, record)
		case errors.Is(record.Err, ErrGone):
			r.count(&r.totals.Left)
		default:
			r.count(&r.totals.Refused)
			r.reportRecord(&record, record.Err.Error())
		}
	}
	return ready
}

// claim returns the records that the source has given away, and counts the others.
func (r *run) claim(ctx context.Context, records []Record) ([]Record, error) {
	if r.mover == nil {
		return records, nil
	}
	var fresh []Record
	for _, record := range records {
		if !record.Claimed {
			fresh = append(fresh, record)
		}
	}
	had, err := r.mover.Claim(ctx, fresh)
	if err != nil {
		return nil, fmt.Errorf("taking records out of the source: %w", err)
	}
	ours, next := records[:0], 0
	for _, record := range records {
		if !record.Claimed {
			if next++; !had[next-1] {
				r.count(&r.totals.Left)
				continue
			}
		}
		ours = append(ours, record)
	}
	return ours, nil
}

// withoutFired finishes the records of an earlier move whose tasks have fired, and returns the others. The history
// knows a task for longer than its queue does.
func (r *run) withoutFired(ctx context.Context, records []Record) ([]Record, error) {
	if r.mover == nil {
		return records, nil
	}
	var fired []Record
	rest := records[:0]
	for _, record := range records {
		found := false
		if record.Claimed && record.Schedule == nil && record.Task.FireAt.Before(time.Now()) {
			var err error
			if found, err = r.hasHistory(ctx, &record); err != nil {
				return nil, err
			}
		}
		if !found {
			rest = append(rest, record)
			continue
		}
		r.count(&r.totals.Existing)
		fired = append(fired, record)
	}
	if len(fired) == 0 {
		return rest, nil
	}
	return rest, r.mover.Finish(ctx, fired)
}

// historyLimit is the number of events in which hasHistory looks for an attempt.
const historyLimit = 1000

// hasHistory reports whether an attempt of the record's task is known, at its due time.
func (r *run) hasHistory(ctx context.Context, record *Record) (bool, error) {
	history, err := r.c.TaskHistory(ctx, record.Task.ID, historyLimit)
	switch {
	case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrGone):
		return false, nil
	case err != nil:
		return false, err
	}
	for i := range history.Events {
		e := &history.Events[i]
		if e.Attempt > 0 && e.Due.UnixMilli() == record.Task.FireAt.UnixMilli() {
			return true, nil
		}
	}
	return false, nil
}

// schedule stores the tasks of records, and counts them. done are the records with a task in the cluster, and back
// those without one. A record is neither if the cluster may have its task: the outcome of the call is unknown, or an
// earlier move may have stored the task, and nobody knows whether it was changed since.
func (r *run) schedule(ctx context.Context, records []Record) (done, back []Record, stop error) {
	for i, err := range r.put(ctx, records) {
		record := &records[i]
		verdict, err := r.judge(ctx, record, err)
		if err != nil && stop == nil {
			stop = fmt.Errorf("%s: %w", record.Key, err)
		}
		switch {
		case verdict == kept:
			done = append(done, *record)
			if r.ledger != nil {
				r.ledger.add(record)
			}
		case verdict == refused, !record.Claimed && !errors.Is(err, client.ErrUnknown):
			back = append(back, *record)
		}
	}
	return done, back, stop
}

// put schedules the tasks of records unless they exist, and returns the error of each.
func (r *run) put(ctx context.Context, records []Record) []error {
	errs := make([]error, len(records))
	var tasks []int // indices of records
	for i := range records {
		if records[i].Schedule == nil {
			tasks = append(tasks, i)
			continue
		}
		_, errs[i] = r.c.PutSchedule(ctx, *records[i].Schedule, client.IfAbsent())
	}
	if len(tasks) == 0 {
		return errs
	}
	ops := func(yield func(client.Op) bool) {
		for _, i := range tasks {
			if !yield(client.ScheduleOp(records[i].Task, client.IfAbsent())) {
				return
			}
		}
	}
	next := 0
	for result := range r.c.Batch(ctx, ops) {
		errs[tasks[next]] = result.Err
		next++
	}
	return errs
}

// verdict is the state of a record's task after a call.
type verdict int

const (
	failed   verdict = iota // the cluster takes no tasks, and the import ends
	kept                    // the cluster has the task
	refused                 // the cluster cannot have the task, and never had it
	conflict                // the cluster has another task of the id
)

// judge counts a record by the answer to its call. The error is that of the verdict failed.
func (r *run) judge(ctx context.Context, record *Record, err error) (verdict, error) {
	var refusal *client.Error
	switch {
	case err == nil:
		r.count(&r.totals.Scheduled)
		return kept, nil
	case !errors.As(err, &refusal):
		return failed, err
	case isAboutRecord(refusal):
		r.count(&r.totals.Refused)
		r.reportRecord(record, refusal.Error())
		return refused, nil
	case !errors.Is(err, client.ErrPrecondition):
		return failed, err
	}
	difference, err := r.compare(ctx, record, refusal)
	switch {
	case err != nil:
		return failed, err
	case difference != "":
		r.count(&r.totals.Conflicts)
		r.reportRecord(record, "the cluster has another one of this id: it "+difference)
		return conflict, nil
	}
	r.count(&r.totals.Existing)
	return kept, nil
}

// isAboutRecord reports whether a refusal is about one task, so that others may be taken.
func isAboutRecord(refusal *client.Error) bool {
	switch refusal.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusConflict:
		return true
	case http.StatusForbidden: // a quota on the size of payloads
		return errors.Is(refusal, client.ErrQuotaExceeded)
	}
	return false
}

// compare returns the difference between a record and the task, or the schedule, that a refusal shows; empty: none.
func (r *run) compare(ctx context.Context, record *Record, refusal *client.Error) (string, error) {
	if record.Schedule != nil {
		if refusal.Schedule == nil {
			return "is no schedule", nil
		}
		return scheduleDifference(record.Schedule, refusal.Schedule), nil
	}
	found := refusal.Task
	if found == nil {
		return "is hidden from this key", nil
	}
	want := contentOf(&record.Task)
	if r.mover != nil && found.State == client.StateCancelled {
		return "is cancelled", nil // the source's workers would run it
	}
	if !hasEnded(found) && !hasPayload(found) && hasPayload(&record.Task) { // a line's answer leaves out large payloads
		whole, err := r.c.Get(ctx, found.ID)
		if err != nil {
			return "", err
		}
		found = whole
	}
	return want.difference(found), nil
}

func (r *run) reportRecord(record *Record, reason string) {
	r.report(Trouble{Key: record.Key, ID: record.id(), Reason: reason, Text: record.Text})
}

func (r *run) report(t Trouble) {
	if r.Report != nil {
		r.Report(t)
	}
}
