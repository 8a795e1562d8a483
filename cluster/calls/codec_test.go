package calls

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// TestCodec checks that messages arrive as they were sent: frequent and rare ones, rare ones in frequent ones, small
// ones and those in buffers of a pool.
func TestCodec(t *testing.T) {
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
			received := sent.ProtoReflect().New().Interface()
			pass(t, sent, received)
			if !proto.Equal(sent, received) {
				t.Errorf("%v arrived as %v", sent, received)
			}
			request, err := encode(sent)
			if err != nil {
				t.Fatal(err)
			}
			received = sent.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(request, received); err != nil || !proto.Equal(sent, received) {
				t.Errorf("as a request, %v arrived as %v, %v", sent, received, err)
			}
		})
	}
}

// pass sends a message.
func pass(t *testing.T, sent, received proto.Message) {
	t.Helper()
	data, err := Codec{}.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	standard, err := proto.Marshal(sent)
	if err != nil || data.Len() != len(standard) {
		t.Errorf("%d bytes, %d by the library, %v", data.Len(), len(standard), err)
	}
	if err := (Codec{}).Unmarshal(data, received); err != nil {
		t.Fatal(err)
	}
}

// TestCodecText checks that a message arrives whose text is not UTF-8.
func TestCodecText(t *testing.T) {
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
	data, err := Codec{}.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	received := &clusterpb.StatusReply{}
	if err := (Codec{}).Unmarshal(data, received); err != nil || !proto.Equal(received, want) {
		t.Errorf("%v, %v", received, err)
	}
	if sent.Vitals.NotReady != bad {
		t.Error("the message of the caller has changed")
	}
}

// TestCodecRefuses checks that a value that is no message is an error.
func TestCodecRefuses(t *testing.T) {
	if _, err := (Codec{}).Marshal(7); err == nil {
		t.Error("a number was encoded")
	}
	if err := (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer{}}, new(int)); err == nil {
		t.Error("a number was decoded")
	}
}
