package httpapi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// The calls of bulk operations.
const (
	bulkMove  = "move"
	bulkPatch = "patch"
)

var bulkOps = []string{"cancel", bulkMove, bulkPatch, "fire", "replay", "purge"}

// mostBulkRate is the highest rate of a bulk operation. It is that of all of them together.
const mostBulkRate = 5000

// bulkDraft is a bulk operation as its request gives it.
type bulkDraft struct {
	p    *parser
	r    *contract.Reader
	made *BulkRequest
	seen map[string]bool // the members that the request has
}

// bulk reads a bulk operation. The result outlives the body.
func (p *parser) bulk(body []byte) (*BulkRequest, error) {
	data := bytes.Clone(body)
	d := &bulkDraft{
		p: p, r: contract.NewReader(data), made: &BulkRequest{Filter: &fsmpb.ListQuery{}, Call: xxhash.Sum64(data)},
		seen: map[string]bool{},
	}
	if err := d.r.RootOnce(d.member); err != nil {
		return nil, err
	}
	return d.made, d.check()
}

func (d *bulkDraft) member(name, full string) (known bool, err error) {
	d.seen[name] = true
	switch name {
	case "op":
		d.made.Op, err = d.op(full)
	case "filter":
		err = d.filter()
	case "all":
		d.made.All, err = d.r.Bool(full)
	case "by":
		d.made.ByMs, err = d.by(full)
	case "to":
		d.made.ToMs, err = d.instant(full)
	case "patch":
		err = d.patch()
	case "per_second":
		var n int64
		n, err = d.r.Whole(full, 1, mostBulkRate)
		d.made.PerSecond = uint32(n)
	case "dry_run":
		d.made.DryRun, err = d.r.Bool(full)
	default:
		return false, nil
	}
	return true, err
}

func (d *bulkDraft) op(full string) (string, error) {
	text, err := d.r.Text(full)
	if err == nil && !slices.Contains(bulkOps, text) {
		err = &task.FieldError{
			Field: full, Detail: fmt.Sprintf("is %q", contract.Clip(text)), Limit: strings.Join(bulkOps, ", "),
		}
	}
	return text, err
}

// by reads a duration that may be negative, in milliseconds.
func (d *bulkDraft) by(full string) (int64, error) {
	text, err := d.r.Text(full)
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

func (d *bulkDraft) instant(full string) (int64, error) {
	text, err := d.r.Text(full)
	if err != nil {
		return 0, err
	}
	ms, err := instantField(full, text, d.p.now.at)
	return max(ms, 1), err // 0 stands for no instant
}

// filter reads the conditions on tasks. The names and rules are those of a list.
func (d *bulkDraft) filter() error {
	return d.r.EachOnce("filter", "filter.", func(name, full string) (known bool, err error) {
		q := d.made.Filter
		switch name {
		case "queue":
			if q.Queue, err = d.r.Text(full); err == nil {
				err = checked(task.CheckName(full, q.Queue))
			}
		case "prefix":
			if q.Prefix, err = d.r.Text(full); err == nil {
				err = checked(task.CheckName(full, q.Prefix))
			}
		case "label":
			err = d.each(full, func(text string) error { return listLabels(q, []string{text}) })
		case "state":
			err = d.each(full, func(text string) error { return listStates(q, []string{text}) })
		case "due_after":
			q.DueAfterMs, err = d.instant(full)
		case "due_before":
			q.DueBeforeMs, err = d.instant(full)
		default:
			return false, nil
		}
		return true, err
	})
}

// each reads a string, or an array of strings.
func (d *bulkDraft) each(full string, add func(text string) error) error {
	one := func() error {
		text, err := d.r.Text(full)
		if err != nil {
			return err
		}
		return within("filter.", add(text))
	}
	if d.r.Peek() != '[' {
		return one()
	}
	return d.r.Array(full, func(i int) error {
		if i >= task.MaxLabels {
			return &task.FieldError{Field: full, Detail: "has too many elements", Limit: fmt.Sprint(task.MaxLabels)}
		}
		return one()
	})
}

// patch reads a merge patch of the parts of a task that have no credentials: the record of the operation is kept in the
// clear.
func (d *bulkDraft) patch() error {
	patch := new(fsmpb.Patch)
	d.made.Patch = patch
	err := d.r.EachOnce("patch", "", func(name, _ string) (known bool, err error) {
		f := contract.FieldOf([]byte(name))
		if f != contract.Target && f != contract.Retry && f != contract.Labels {
			return false, nil
		}
		return true, d.p.patchMember(d.r, f, patch)
	})
	if err == nil {
		err = d.p.checkPatch(patch, 0)
	}
	switch {
	case err != nil:
		return within("patch.", err)
	case patch.ClearTarget || len(patch.Target.GetHeaders()) > 0 || patch.Target.GetClearHeaders():
		return &task.FieldError{
			Field: "patch.target.headers", Detail: "cannot be changed by a bulk operation, which keeps no credentials",
		}
	}
	return nil
}

// check refuses a request that is wrong as a whole.
func (d *bulkDraft) check() error {
	r := d.made
	conditions := d.conditions()
	switch {
	case r.Op == "":
		return &task.FieldError{Field: "op", Detail: "is absent", Limit: strings.Join(bulkOps, ", ")}
	case conditions == 0 && !r.All:
		return &task.FieldError{Field: "filter", Detail: `has no condition; "all": true selects every task of the namespace`}
	case conditions > 0 && r.All:
		return &task.FieldError{Field: "all", Detail: "is true beside a filter with a condition"}
	}
	for _, m := range []struct {
		name, op string
	}{{"by", bulkMove}, {"to", bulkMove}, {"patch", bulkPatch}} {
		if d.seen[m.name] && r.Op != m.op {
			return &task.FieldError{Field: m.name, Detail: "is not a field of the operation " + r.Op}
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
	case r.Op == bulkPatch && len(task.Patched(r.Patch)) == 0:
		return &task.FieldError{Field: "patch", Detail: "changes nothing", Limit: "target, retry, labels"}
	}
	return nil
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
