// Package clusterpb is generated from five files; see the comments there.
//
//	control.proto   the control group's state and its commands
//	backup.proto    the records in a backup
//	peer.proto      the gRPC service of a node, and the calls about a node
//	forward.proto   the messages on the way of each task, and the envelope of all calls
//	calls.proto     the calls to shards and to the control group
//
// The encoding is protobuf, so that unknown fields survive a rolling upgrade. Code of vtprotobuf encodes and decodes
// the messages of forward.proto only: for all messages it has 36,000 lines more, and takes 3 s longer to compile.
package clusterpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative cluster/clusterpb/backup.proto cluster/clusterpb/calls.proto cluster/clusterpb/control.proto cluster/clusterpb/forward.proto cluster/clusterpb/peer.proto
//go:generate protoc --proto_path=../.. --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal_unsafe+size cluster/clusterpb/forward.proto
