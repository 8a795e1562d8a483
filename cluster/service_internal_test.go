package cluster

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// A node registers itself, and no other node does: a member of the cluster asks the leader for a change instead.
func TestMayRegister(t *testing.T) {
	for caller, want := range map[string]bool{"New": true, "new": true, "member": false, "stranger": false} {
		if got := mayRegister(caller, &clusterpb.Node{Name: "new"}); got != want {
			t.Errorf("%s: %v", caller, got)
		}
	}
}
