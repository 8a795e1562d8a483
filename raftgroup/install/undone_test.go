package install

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

func (f *follower) isUndone(what string, answer <-chan raft.RPCResponse) {
	f.t.Helper()
	r := <-answer
	assert.ErrorIs(f.t, r.Error, ErrUndone, "%s: answered %+v", what, r.Response)
	select {
	case err := <-f.fatal:
		assert.ErrorIs(f.t, err, ErrUndone)
	default:
		f.t.Errorf("%s: the process goes on", what)
	}
}

// TestAppliedEntriesAreNotCut checks that applied entries stay whatever a leader sends, and that the process ends
// instead.
func TestAppliedEntriesAreNotCut(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		for name, contradict := range map[string]func(f *follower) <-chan raft.RPCResponse{
			"an entry":            func(f *follower) <-chan raft.RPCResponse { return f.ask(behind(7, 2, 3, 5), nil) },
			"the last one":        func(f *follower) <-chan raft.RPCResponse { return f.ask(behind(9, 2, 3, 5), nil) },
			"the one before them": func(f *follower) <-chan raft.RPCResponse { return f.ask(behind(10, 3, 3, 5), nil) },
			"a snapshot's last":   func(f *follower) <-chan raft.RPCResponse { return f.snapshot(3, 8, 3) },
		} {
			t.Run(name, func(t *testing.T) {
				f := follow(t, kind)
				f.done("entries", f.entries(2, 2, 10, 10))
				f.done("a heartbeat", f.heartbeat(3))
				f.isUndone(name, contradict(f))
				f.holds(1, 10, 10, 0)

				// A restarted process that has applied no entry yet relies on the applied index of the previous
				// process.
				f.stop()
				f.applied = 10
				f.start()
				f.isUndone(name+", after a restart", contradict(f))
				f.holds(1, 10, 0, 0)
			})
		}
	})
}

// TestDeposedLeaderContradictsNothing checks that other entries of a deposed leader do not end the process, and that
// Raft refuses them.
func TestDeposedLeaderContradictsNothing(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind logstore.Kind) {
		f := follow(t, kind)
		f.done("a heartbeat", f.heartbeat(4))
		f.done("entries", f.entries(4, 2, 10, 10))
		if r := <-f.ask(behind(7, 2, 3, 5), nil); r.Error != nil || r.Response.(*raft.AppendEntriesResponse).Success {
			t.Errorf("answered %+v, %v", r.Response, r.Error)
		}
		f.done("more", f.entries(4, 11, 12, 12))
		f.holds(1, 12, 12, 0)
	})
}
