//go:build chaos

package router

import (
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// flawReadsStale reports whether nodes answer reads without proof of leadership.
func flawReadsStale() bool { return flaw.StaleRead.On() }

// flawListsDefault moves a query into the default namespace.
func flawListsDefault(q *fsmpb.ListQuery) {
	if flaw.ForeignList.On() {
		q.Namespace = ""
	}
}
