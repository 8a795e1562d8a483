package recovery

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Each part of the control state is kept, made anew, or left behind. A new part must be entered here, after thought.
func TestPartsOfTheControlState(t *testing.T) {
	const kept, anew, left = "kept", "made anew", "left behind"
	want := map[string]string{
		"cluster_id": anew, "command_version": anew, "version": anew, "nodes": left, "slots": anew, "shards": anew,
		"queues": kept, "queues_version": kept, "backups": left, "orders": left, "removed": left,
		"replication": kept, "operations": left, "join_tokens": left, "slot_moves": left,
		"last_slot_move": kept, "api_keys": kept, "keys_in_force": kept, "namespaces": kept, "access_version": kept,
		"cluster_key": kept, "bulks": left, "calendars": kept, "receipt_key": kept,
		"jwt_keys": left,
	}
	old := &clusterpb.ControlState{
		ClusterId: "old", CommandVersion: 2, Version: 2, Nodes: []*clusterpb.Node{{Id: "a"}},
		Slots:  []*clusterpb.SlotRange{{End: 4096, Shard: 1}},
		Shards: []*clusterpb.Shard{{Id: 1, Replicas: []string{"a"}, Preferred: "a"}},
		Queues: []*fsmpb.QueuePolicy{{Queue: "q"}}, QueuesVersion: 3,
		Backups: &clusterpb.Backups{Revision: 1}, Orders: map[string]clusterpb.NodeOrder{"a": 1}, Removed: []string{"c"},
		Replication: 5, Operations: []*clusterpb.Operation{{Id: "1"}},
		JoinTokens: []*clusterpb.JoinToken{{Id: "t"}}, SlotMoves: []*clusterpb.SlotMove{{Number: 3}}, LastSlotMove: 3,
		ApiKeys: []*clusterpb.ApiKey{{Id: "k"}}, KeysInForce: true, Namespaces: []*clusterpb.Namespace{{Name: "shop"}},
		AccessVersion: 4, ClusterKey: "k1", Bulks: []*clusterpb.BulkOperation{{Id: "1"}},
		Calendars: []*fsmpb.Calendar{{Name: "holidays"}}, ReceiptKey: []byte("secret"),
		JwtKeys: []*clusterpb.JwtKey{{Id: "k"}},
	}
	r := &restoring{
		state: proto.CloneOf(old), ranges: []placement.Range{{First: 0, End: 2000}, {First: 2000, End: 4096}},
		report: RestoreReport{Made: Made{ClusterID: "new", NodeID: "b"}},
	}
	r.shape()
	before, after := old.ProtoReflect(), r.state.ProtoReflect()
	fields := before.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		treatment := want[string(field.Name())]
		if treatment == "" {
			t.Errorf("is the field %s kept, made anew, or left behind?", field.Name())
			continue
		}
		if !before.Has(field) {
			t.Errorf("the test sets no %s", field.Name())
		}
		same := before.Get(field).Equal(after.Get(field))
		if same != (treatment == kept) || after.Has(field) == (treatment == left) {
			t.Errorf("%s is not %s: %v", field.Name(), treatment, after.Get(field))
		}
	}
}
