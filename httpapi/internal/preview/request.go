package preview

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/internal/contract"
)

// request is the body of a call.
type request struct {
	rule *fsmpb.Repeat // nil: absent
	next int64
}

func readRequest(body []byte, now time.Time) (*request, error) {
	q, r := &request{next: usualNext}, contract.NewReader(body)
	err := r.RootOnce(func(name, full string) (known bool, err error) {
		switch name {
		case "repeat":
			q.rule = new(fsmpb.Repeat)
			return true, repeating.Read(repeating.Source{Reader: r, Name: full, Now: now}, q.rule)
		case "next":
			q.next, err = r.Whole(full, 1, mostNext)
			return true, err
		}
		return false, nil
	})
	if err == nil && q.rule == nil {
		err = &task.FieldError{Field: "repeat", Detail: "is absent"}
	}
	return q, err
}
