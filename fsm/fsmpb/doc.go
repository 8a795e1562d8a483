// Package fsmpb is generated from fsm.proto: the commands of a shard's log, their results, and the task as a caller
// sees it. They are protobuf because unknown fields survive a rolling upgrade; see the comments in fsm.proto.
//
// Encoding and decoding the messages takes a third of the time of applying them. The code for both is therefore
// generated too, by vtprotobuf:
//
//   - It uses no reflection.
//   - Decoded text and bytes point into the input (UnmarshalVTUnsafe). A caller whose input changes later decodes a
//     copy of it. A second decoder that copies each field would add 18,000 lines.
//   - The messages that every entry consists of have pools. No message with bytes in it is pooled: its next use would
//     overwrite the memory that the bytes point to.
package fsmpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal_unsafe+size+pool --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Entry --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Command --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Key --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Schedule --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Cancel --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Settle --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Touch --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.SnapshotRecord --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.SnapshotTask --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Task fsm/fsmpb/fsm.proto fsm/fsmpb/store.proto
