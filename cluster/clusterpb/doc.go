// Package clusterpb is generated from five files; see the comments there.
//
//	control.proto   the control group's state and its commands
//	backup.proto    the records in a backup
//	peer.proto      the calls between nodes
//	forward.proto   the calls of peer.proto on the way of each task
//	admin.proto     the rare ones among the calls that forward.proto carries
//
// The encoding is protobuf, so that unknown fields survive a rolling upgrade. Code of vtprotobuf encodes and decodes
// the messages of forward.proto only: for all messages it has 36,000 lines more, and takes 3 s longer to compile.
package clusterpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative cluster/clusterpb/admin.proto cluster/clusterpb/backup.proto cluster/clusterpb/control.proto cluster/clusterpb/forward.proto cluster/clusterpb/peer.proto
//go:generate protoc --proto_path=../.. --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal_unsafe+size cluster/clusterpb/forward.proto
