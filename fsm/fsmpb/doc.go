// Package fsmpb is generated from fsm.proto: the commands of a shard's log, their results, and the task as a caller
// sees it. Protobuf because unknown fields survive a rolling upgrade; see the comments in fsm.proto.
//
// Encoding and decoding them is a third of what applying them costs, so that the code for it is generated too
// (vtprotobuf): without reflection, with strings that point into what is decoded where that is asked for, and with
// pools of the messages that every entry is made of. None with bytes in it is pooled: the next use would write into
// what they point to.
package fsmpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+unmarshal_unsafe+size+pool --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Entry --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Command --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Key --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Schedule --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Cancel --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Settle --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Touch --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.SnapshotRecord --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.SnapshotTask --go-vtproto_opt=pool=github.com/belfryhq/belfry/fsm/fsmpb.Task fsm/fsmpb/fsm.proto fsm/fsmpb/store.proto
