package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// applyExtend moves the end of a consumer's lease.
func (a *applier) applyExtend(r request) *fsmpb.Result {
	op, t := r.GetExtend(), a.store.FindAt(r.at, r.Namespace, r.Id)
	switch {
	case !t.Exists():
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case op.LeaseMs <= 0:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "lease", Detail: "is not more than 0s"}
	case !isLeasedUnder(t, op):
		return refused(t, fsmpb.Code_CODE_STALE)
	}
	a.store.Change(t, func(e store.Edit) {
		e.Renew()
		e.WaitUntil(a.store.NowMs + op.LeaseMs + a.store.HorizonMs)
	})
	result := done()
	result.Revision = t.Revision()
	if a.full && r.Answer != fsmpb.Answer_ANSWER_BRIEF {
		result.Task = t.View(r.Answer == fsmpb.Answer_ANSWER_FULL)
	}
	return result
}
