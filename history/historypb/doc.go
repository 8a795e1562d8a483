// Package historypb has the messages of the history, generated from two files; see the comments there.
//
//	history.proto   the event of a task
//	segment.proto   the records in the files of a store beside events
//
// Position is the place of an event in its shard.
package historypb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal_unsafe+size+clone history/historypb/history.proto history/historypb/segment.proto
