// Package clusterpb is generated from two files; see the comments there.
//
//	control.proto   the control group's state and its commands
//	peer.proto      the messages between nodes
//
// The encoding is protobuf, so that unknown fields survive a rolling upgrade.
package clusterpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size cluster/clusterpb/backup.proto cluster/clusterpb/control.proto cluster/clusterpb/peer.proto
