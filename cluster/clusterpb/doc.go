// Package clusterpb is generated from control.proto (the control group's state and its commands) and peer.proto (what
// nodes say to each other). Protobuf because unknown fields survive a rolling upgrade; see the comments there.
package clusterpb

//go:generate protoc --proto_path=../.. --go_out=../.. --go_opt=paths=source_relative --go-grpc_out=../.. --go-grpc_opt=paths=source_relative --go-vtproto_out=../.. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size cluster/clusterpb/control.proto cluster/clusterpb/peer.proto
