package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
)

// Bulk carries out bulk operations: one call on every task, or on every schedule, of a namespace that passes a filter.
type Bulk interface {
	// BeginBulk begins a bulk operation and returns it, or the one that has begun before with the request's id; same is
	// false if that one's Call is another.
	BeginBulk(ctx context.Context, r BulkRequest) (op *view.Operation, same bool, err error)
	// CountBulk counts the tasks or schedules that a bulk operation would match now, and begins nothing. It counts until
	// ctx ends; all is false if some may be left then.
	CountBulk(ctx context.Context, r BulkRequest) (matched uint64, all bool, err error)
	// StopBulk stops a bulk operation that is under way, and returns it.
	StopBulk(ctx context.Context, id string) (*view.Operation, error)
}

// BulkRequest is a bulk operation as its caller describes it.
type BulkRequest struct {
	ID        string // of the operation, if the call has an idempotency key; empty: a new one
	Op        string // cancel, move, patch, fire, replay or purge; of schedules: pause, resume, delete or patch
	Schedules bool   // the operation is on schedules, not on tasks
	Namespace string
	Filter    *fsmpb.ListQuery // without namespace, limit and cursor
	All       bool             // the filter has no condition
	ByMs      int64            // of a move: added to the instant of each task; 0: the tasks move to ToMs
	ToMs      int64            // of a move
	Patch     *fsmpb.Patch     // of a patch: of the tasks, or of the schedules' tasks
	Settings  *fsmpb.Series    // of a patch of schedules: has the new values
	Changed   []string         // of a patch of schedules: the changed settings, as in repeat.cron
	Note      string           // of a pause or a resume
	PerSecond uint32           // most tasks a second; 0: the service's rate
	Call      uint64           // hash of the request, for repeats of its key
	DryRun    bool             // nothing begins
}

// bulkKind is the kind of all bulk operations. Their call is the member op.
const bulkKind = "bulk"

// beginBulk begins a bulk operation, or counts the tasks that it would match.
func (s *operationService) beginBulk(c echo.Context) error {
	cl := callOf(c)
	if err := cl.checkWhole(); err != nil {
		return err
	}
	body, err := bind(c, s.bounds.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	r, err := s.parser(cl).bulk(body.data)
	if err != nil {
		return err
	}
	r.Namespace = cl.namespace
	if r.DryRun {
		return s.countBulk(c, *r)
	}
	if key := c.Request().Header.Get(keyHeader); key != "" {
		r.ID = operationID("bulk\x00" + cl.namespace + "\x00" + key)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	op, same, err := s.backend.BeginBulk(ctx, *r)
	switch {
	case err != nil:
		return err
	case !same:
		return &problem{kind: keyReused, field: keyHeader, detail: "was used before with another operation"}
	}
	return writeBegun(c, op)
}

// countBulk answers with the number of tasks that a bulk operation would match now.
func (s *operationService) countBulk(c echo.Context, r BulkRequest) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	matched, all, err := s.backend.CountBulk(ctx, r)
	if err != nil {
		return s.readFailed(err)
	}
	return writeValue(c, http.StatusOK, struct {
		Matched  uint64 `json:"matched"`
		Complete bool   `json:"complete"`
	}{matched, all})
}

// stopBulk stops a bulk operation. Its caller may operate the whole namespace.
func (s *operationService) stopBulk(c echo.Context, op *view.Operation) error {
	if !callOf(c).caller.Allows(access.Need{Role: access.Operate, Namespace: op.Namespace}) {
		return callOf(c).roleMissing("in the namespace " + op.Namespace)
	}
	if op.State != isRunning {
		return &problem{kind: impossible, detail: fmt.Sprintf("the operation is %s", op.State)}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	stopped, err := s.backend.StopBulk(ctx, op.ID)
	if err != nil {
		return err
	}
	return writeBegun(c, stopped)
}

// The calls of bulk operations.
const (
	bulkMove   = "move"
	bulkPatch  = "patch"
	bulkPause  = "pause"
	bulkResume = "resume"
)

// bulkOps lists the calls by the member of.
var bulkOps = map[string][]string{
	listsTasks:     {"cancel", bulkMove, bulkPatch, "fire", "replay", "purge"},
	listsSchedules: {bulkPause, bulkResume, "delete", bulkPatch},
}

// mostBulkRate is the highest rate of a bulk operation. It is that of all of them together.
const mostBulkRate = 5000

// bulkDraft is a bulk operation as its request gives it.
type bulkDraft struct {
	p    *parser
	made *BulkRequest
	seen map[string]bool // the members by, to, patch, note and of the filter that the request has
	of   string
	raw  []byte // the patch, whose meaning depends on of
}

// bulk reads a bulk operation. The result outlives the body.
func (p *parser) bulk(body []byte) (*BulkRequest, error) {
	data, made := bytes.Clone(body), &BulkRequest{Filter: &fsmpb.ListQuery{}}
	made.Call = xxhash.Sum64(data)
	d := &bulkDraft{p: p, made: made, seen: map[string]bool{}, of: listsTasks}
	err := contract.Members{
		"op": contract.Text(&made.Op),
		"of": contract.Into(&d.of, func(r *contract.Reader, full string) (string, error) {
			return oneOf(r, full, []string{listsTasks, listsSchedules})
		}),
		"filter": d.filter,
		"all":    contract.Bool(&made.All),
		"by":     d.noted(contract.Into(&made.ByMs, readShift)),
		"to":     d.noted(contract.Into(&made.ToMs, d.instant)),
		"patch": d.noted(func(r *contract.Reader, _ string, _ bool) (err error) {
			d.raw, err = r.Value()
			return err
		}),
		"note":       d.noted(contract.Into(&made.Note, note)),
		"per_second": contract.Whole(&made.PerSecond, 1, mostBulkRate),
		"dry_run":    contract.Bool(&made.DryRun),
	}.Root(data, false)
	if err != nil {
		return nil, err
	}
	made.Schedules = d.of == listsSchedules
	return made, d.check()
}

// noted returns a member that is also noted as seen.
func (d *bulkDraft) noted(read contract.Member) contract.Member {
	return func(r *contract.Reader, full string, merged bool) error {
		d.seen[full] = true
		return read(r, full, merged)
	}
}

// readShift reads a duration that may be negative, in milliseconds.
func readShift(r *contract.Reader, full string) (int64, error) {
	text, err := r.Text(full)
	if err != nil {
		return 0, err
	}
	span, err := contract.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &task.FieldError{Field: full, Detail: err.Error()}
	case span < -task.MaxDelay || span > task.MaxDelay:
		return 0, &task.FieldError{Field: full, Detail: "is too long", Limit: "100 years (36500d) in both directions"}
	case span/time.Millisecond == 0:
		return 0, &task.FieldError{Field: full, Detail: "is less than a millisecond"}
	}
	return int64(span / time.Millisecond), nil
}

func (d *bulkDraft) instant(r *contract.Reader, full string) (int64, error) {
	text, err := r.Text(full)
	if err != nil {
		return 0, err
	}
	ms, err := instantField(full, text, d.p.now.at)
	return max(ms, 1), err // 0 stands for no instant
}

// filter reads the conditions on tasks. The names and rules are those of a list.
func (d *bulkDraft) filter(r *contract.Reader, full string, _ bool) error {
	q := d.made.Filter
	return contract.Members{
		"queue":      contract.Into(&q.Queue, readTaskName),
		"prefix":     contract.Into(&q.Prefix, readTaskName),
		"label":      eachText(func(text string) error { return listLabels(q, []string{text}) }),
		"state":      d.noted(eachText(func(text string) error { return listStates(q, []string{text}) })),
		"due_after":  d.noted(contract.Into(&q.DueAfterMs, d.instant)),
		"due_before": d.noted(contract.Into(&q.DueBeforeMs, d.instant)),
	}.Object(r, full, false)
}

func readTaskName(r *contract.Reader, full string) (string, error) {
	name, err := r.Text(full)
	if err == nil {
		err = checked(task.CheckName(full, name))
	}
	return name, err
}

// eachText returns the member of a filter whose value is a string, or an array of strings.
func eachText(add func(text string) error) contract.Member {
	one := func(r *contract.Reader, full string) (string, error) {
		text, err := r.Text(full)
		if err == nil {
			err = within("filter.", add(text))
		}
		return text, err
	}
	return func(r *contract.Reader, full string, _ bool) (err error) {
		if r.Peek() != '[' {
			_, err = one(r, full)
			return err
		}
		tooMany := &task.FieldError{Field: full, Detail: "has too many elements", Limit: fmt.Sprint(task.MaxLabels)}
		_, err = contract.List(r, full, task.MaxLabels, tooMany, func(r *contract.Reader, _ string) (string, error) {
			return one(r, full)
		})
		return err
	}
}

// patch reads a merge patch of the parts of a task that have no credentials: the record of the operation is kept in the
// clear.
func (d *bulkDraft) patch(r *contract.Reader, full string, _ bool) error {
	s, seen := specReader{parser: d.p, r: r, spec: new(fsmpb.Spec)}, contract.Set(0)
	s.patch = &fsmpb.Patch{Set: s.spec}
	d.made.Patch = s.patch
	if r.Peek() != '{' {
		return r.WrongType(full, "an object")
	}
	err := r.Object(full, &bulkPatchObject, &seen, s.member)
	if err == nil {
		err = d.p.checkPatch(s.patch, 0)
	}
	hasCredentials := func(path string) bool { return path == "target" || strings.HasPrefix(path, "target.headers") }
	switch {
	case err != nil:
		return within(full+".", err)
	case len(s.spec.Target.GetHeaders()) > 0 || slices.ContainsFunc(s.patch.Clear, hasCredentials):
		return &task.FieldError{
			Field: full + ".target.headers", Detail: "cannot be changed by a bulk operation, which keeps no credentials",
		}
	}
	return nil
}

var bulkPatchObject = contract.Object{Takes: 1<<contract.Target | 1<<contract.Retry | 1<<contract.Labels}

// check refuses a request that is wrong as a whole.
func (d *bulkDraft) check() error {
	r := d.made
	conditions := d.conditions()
	switch {
	case r.Op == "":
		return &task.FieldError{Field: "op", Detail: "is absent", Limit: strings.Join(bulkOps[d.of], ", ")}
	case !slices.Contains(bulkOps[d.of], r.Op):
		return &task.FieldError{Field: "op", Detail: fmt.Sprintf("is %q", contract.Clip(r.Op)),
			Limit: fmt.Sprintf("%s, of %s", strings.Join(bulkOps[d.of], ", "), d.of)}
	case conditions == 0 && !r.All:
		return &task.FieldError{Field: "filter", Detail: `has no condition; "all": true selects all of the namespace`}
	case conditions > 0 && r.All:
		return &task.FieldError{Field: "all", Detail: "is true beside a filter with a condition"}
	}
	for _, m := range []struct {
		name string
		ops  []string
	}{
		{"by", []string{bulkMove}}, {"to", []string{bulkMove}}, {"patch", []string{bulkPatch}},
		{"note", []string{bulkPause, bulkResume}},
	} {
		if d.seen[m.name] && !slices.Contains(m.ops, r.Op) {
			return &task.FieldError{Field: m.name, Detail: "is not a field of the operation " + r.Op}
		}
	}
	for _, name := range []string{"filter.state", "filter.due_after", "filter.due_before"} {
		if r.Schedules && d.seen[name] {
			return &task.FieldError{Field: name, Detail: "is not a condition on schedules", Limit: "queue, prefix, label"}
		}
	}
	return d.checkChange()
}

// checkChange refuses a move without one destination, and a patch without a change.
func (d *bulkDraft) checkChange() error {
	r := d.made
	switch {
	case r.Op == bulkMove && d.seen["by"] == d.seen["to"]:
		return &task.FieldError{Field: "by", Detail: "and to: a move has exactly one of them"}
	case r.Op != bulkPatch:
		return nil
	case d.raw == nil:
		return absent("patch")
	}
	read, members := d.patch, "target, retry, labels"
	if r.Schedules {
		read, members = d.settings, "repeat, misfire, misfire_window, overlap, paused, note, task"
	}
	if err := read(contract.NewReader(d.raw), "patch", true); err != nil {
		return err
	}
	if len(task.Patched(r.Patch)) == 0 && len(r.Changed) == 0 {
		return &task.FieldError{Field: "patch", Detail: "changes nothing", Limit: members}
	}
	return nil
}

// settings reads a merge patch of schedules. Their task has the members of a patch of tasks.
func (d *bulkDraft) settings(r *contract.Reader, full string, merged bool) error {
	draft := &seriesDraft{p: d.p, set: &fsmpb.SetSeries{
		Series: &fsmpb.Series{Repeat: new(fsmpb.Repeat)},
	}}
	d.made.Settings = draft.set.Series
	members := draft.members()
	for _, name := range []string{"misfire", "misfire_window", "overlap", "paused", "note"} {
		members[name] = d.changing(name, members[name])
	}
	members["task"] = d.patch
	members["repeat"] = d.repeat
	delete(members, "id")
	return members.Object(r, full, merged)
}

// changing returns a member that is also noted as changed.
func (d *bulkDraft) changing(name string, read contract.Member) contract.Member {
	return func(r *contract.Reader, full string, merged bool) error {
		d.made.Changed = append(d.made.Changed, name)
		return read(r, full, merged)
	}
}

// repeat reads the changed members of a rule. It checks them as a whole rule, in which an interval stands for an absent
// time; each schedule's own rule is checked where it is merged.
func (d *bulkDraft) repeat(r *contract.Reader, full string, merged bool) error {
	if r.Peek() != '{' {
		return r.WrongType(full, "an object")
	}
	raw, err := r.Value()
	if err != nil {
		return err
	}
	m := d.made.Settings.Repeat
	if err := repeating.Member(m, d.p.now.at)(contract.NewReader(raw), full, merged); err != nil {
		return err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		d.made.Changed = append(d.made.Changed, "repeat."+name)
	}
	probe := proto.CloneOf(m)
	if len(probe.Cron) == 0 && probe.EveryMs == 0 {
		probe.EveryMs = time.Hour.Milliseconds()
	}
	_, err = d.p.rule(probe)
	return within("patch.", err)
}

// conditions returns the number of conditions of the filter.
func (d *bulkDraft) conditions() (n int) {
	q := d.made.Filter
	for _, given := range []bool{
		q.Queue != "", q.Prefix != "", len(q.Labels) > 0, len(q.States) > 0, q.DueAfterMs != 0, q.DueBeforeMs != 0,
	} {
		if given {
			n++
		}
	}
	return n
}
