package cluster

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// A node registers itself. Only a member of the cluster passes on the registration of another node.
func TestMayRegister(t *testing.T) {
	isMember := func(name string) bool { return name == "member" }
	for _, tt := range []struct {
		caller  string
		relayed bool
		want    bool
	}{{"New", false, true}, {"new", true, true}, {"member", true, true}, {"member", false, false}, {"stranger", true, false}} {
		req := &clusterpb.RegisterRequest{Node: &clusterpb.Node{Name: "new"}, Relayed: tt.relayed}
		if got := mayRegister(tt.caller, req, isMember); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
