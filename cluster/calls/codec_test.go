package calls

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestEncoding checks that frequent and rare messages arrive as they were sent.
func TestEncoding(t *testing.T) {
	schedule := &fsmpb.Command{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Queue: "orders", Payload: make([]byte, 100_000)},
	}}}
	for name, sent := range map[string]proto.Message{
		"empty":           &clusterpb.PingRequest{},
		"rare":            &clusterpb.StatusReply{Shape: &clusterpb.Shape{Shards: map[uint32]string{1: "waits"}}},
		"rare, large":     &clusterpb.BackupReply{Data: make([]byte, 100_000)},
		"frequent":        &clusterpb.PullReply{Answers: []*clusterpb.PullAnswer{{Number: 7, Ended: true}}},
		"frequent, large": &clusterpb.Commands{Commands: []*fsmpb.Command{schedule}},
		"envelope": &clusterpb.ForwardRequest{Calls: []*clusterpb.Call{
			{Number: 1, Kind: "Commands", Request: make([]byte, 100_000)}, {Number: 2, Shard: 7, Kind: "OutlookCall"},
		}},
		"no answer":       &clusterpb.CallReply{Number: 1},
		"an empty answer": &clusterpb.CallReply{Number: 1, Answer: []byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := encode(sent)
			assert.NoError(t, err)
			received := sent.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(request, received); err != nil || !proto.Equal(sent, received) {
				t.Errorf("%v arrived as %v, %v", sent, received, err)
			}
			if standard, err := proto.Marshal(sent); err != nil || len(request) != len(standard) {
				t.Errorf("%d bytes, %d by the library, %v", len(request), len(standard), err)
			}
		})
	}
}

// TestTextIsRepaired checks the arrival of a message with text in another encoding than UTF-8.
func TestTextIsRepaired(t *testing.T) {
	const bad, good = "open \xff.pem", "open \uFFFD.pem"
	sent := &clusterpb.StatusReply{
		Vitals:   &clusterpb.Vitals{NotReady: bad, ClusterKeys: []string{"k", bad}, DiskFree: 7},
		Replicas: []*clusterpb.ReplicaStatus{{Shard: 1, Leader: bad}},
		Shape: &clusterpb.Shape{
			Steps: map[uint32]string{2: bad}, Deletions: map[string]*clusterpb.Deletion{"d": {Left: 1, Waits: bad}},
		},
	}
	want := &clusterpb.StatusReply{
		Vitals:   &clusterpb.Vitals{NotReady: good, ClusterKeys: []string{"k", good}, DiskFree: 7},
		Replicas: []*clusterpb.ReplicaStatus{{Shard: 1, Leader: good}},
		Shape: &clusterpb.Shape{
			Steps: map[uint32]string{2: good}, Deletions: map[string]*clusterpb.Deletion{"d": {Left: 1, Waits: good}},
		},
	}
	data, err := encode(sent)
	assert.NoError(t, err)
	if received, err := decode[*clusterpb.StatusReply](data); err != nil || !proto.Equal(received, want) {
		t.Errorf("%v, %v", received, err)
	}
	assert.Equal(t, sent.Vitals.NotReady, bad, "the message of the caller has changed")
}
