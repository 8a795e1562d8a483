// Package fsmpb is generated from fsm.proto: the commands of a shard's log, their results, and the task as a caller
// sees it. Protobuf because unknown fields survive a rolling upgrade; see the comments in fsm.proto.
package fsmpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative fsm/fsmpb/fsm.proto fsm/fsmpb/store.proto
