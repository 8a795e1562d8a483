//go:build next

package router

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// A command goes to no leader, which may have an older build, until all nodes can read it.
func TestCommandsWaitForTheLastUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("b")
		state := w.state()
		state.CommandVersion = fsm.FirstVersion
		state.Nodes = []*clusterpb.Node{
			{Id: "a", Name: "node-a", CommandVersion: fsm.FirstVersion},
			{Id: "b", Name: "node-b", CommandVersion: fsm.CommandVersion},
		}
		r.cfg.Control = known(func() *clusterpb.ControlState { return state })
		erase := &fsmpb.Command{Id: id(2, 1), Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}}
		touch := &fsmpb.Command{Id: id(3, 1), Op: &fsmpb.Command_Touch{Touch: &fsmpb.Touch{}}}
		err := r.Do(t.Context(), []*fsmpb.Command{erase})[0].Err
		var behind *control.BehindError
		if !errors.As(err, &behind) || len(behind.Nodes) != 1 || len(w.log) != 0 {
			t.Errorf("%v; leaders were asked for %v", err, w.log)
		}
		if err := r.Do(t.Context(), []*fsmpb.Command{touch})[0].Err; err != nil {
			t.Errorf("a command that all nodes know: %v", err)
		}
		state.CommandVersion = fsm.CommandVersion
		if err := r.Do(t.Context(), []*fsmpb.Command{erase})[0].Err; err != nil {
			t.Errorf("after the upgrade: %v", err)
		}
	})
}
