package fsm

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

func TestGrows(t *testing.T) {
	patch := func(p *fsmpb.Patch) *fsmpb.Command { return &fsmpb.Command{Op: &fsmpb.Command_Patch{Patch: p}} }
	touch := func(t *fsmpb.Touch) *fsmpb.Command { return &fsmpb.Command{Op: &fsmpb.Command_Touch{Touch: t}} }
	for _, tt := range []struct {
		name string
		cmd  *fsmpb.Command
		want bool
	}{
		{"schedule", &fsmpb.Command{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{}}}, true},
		{"touch that may schedule", touch(&fsmpb.Touch{OrSchedule: &fsmpb.Schedule{}}), true},
		{"touch with a payload", touch(&fsmpb.Touch{Payload: &fsmpb.Payload{}}), true},
		{"touch with elements", touch(&fsmpb.Touch{Append: []byte("1")}), true},
		{"touch", touch(&fsmpb.Touch{DelayMs: proto.Int64(1)}), false},
		{"patch of the payload", patch(&fsmpb.Patch{Set: &fsmpb.Spec{PayloadIsBytes: true}}), true},
		{"patch of the target", patch(&fsmpb.Patch{Set: &fsmpb.Spec{Target: &fsmpb.Target{}}}), true},
		{"patch of labels", patch(&fsmpb.Patch{Set: &fsmpb.Spec{Labels: []*fsmpb.Label{{}}}}), true},
		{"patch that removes a label", patch(&fsmpb.Patch{Clear: []string{"labels.a"}}), true},
		{"patch that removes a header", patch(&fsmpb.Patch{Clear: []string{"target.headers.a"}}), true},
		{"patch that removes all contents", patch(&fsmpb.Patch{Clear: []string{"payload", "target", "labels"}}), false},
		{"patch that clears a part of the retry", patch(&fsmpb.Patch{Clear: []string{"retry.delays"}}), false},
		{"patch of the time", patch(&fsmpb.Patch{FireAtMs: proto.Int64(1), Set: &fsmpb.Spec{Retry: &fsmpb.Retry{}}}), false},
		{"cancel", &fsmpb.Command{Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}, false},
		{"fire now", &fsmpb.Command{Op: &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}}, false},
		{"copies", importOf(1, []byte{1}), true},
		{"copies that are gone", importOf(1), false},
		{"settle", &fsmpb.Command{Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{}}}, false},
	} {
		if got := Grows(tt.cmd); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
