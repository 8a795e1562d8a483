package raftlog

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/hashicorp/raft"
)

// ordinary are the beginnings of records that Raft writes at Warn or Error, for each group, when nodes start, stop and
// take turns: elections, followers that are behind, and peers that do not answer or hang up. They are shown at Info.
// The death of a node is one warning of the mesh.
var ordinary = []string{
	"heartbeat timeout reached",
	"Election timeout reached",
	"no known peers, aborting election",
	"not part of stable configuration, aborting election",
	"new leader elected, stepping down",
	"duplicate requestVote from",
	"rejecting vote request",
	"rejecting pre-vote request",
	"failed to make requestVote RPC",
	"peer has newer term",

	"appendEntries rejected, sending older logs",
	"previous log term mis-match",
	"clearing log suffix",

	"failed to contact",
	"failed to heartbeat to",
	"failed to appendEntries to",
	"failed to pipeline appendEntries",
	"failed to start pipeline replication to",
	"failed to send snapshot to",
}

// hungUp are the ends of connections when either end stops.
var hungUp = []error{raft.ErrTransportShutdown, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE}

// isOrdinary reports whether a record says nothing that an operator should look into.
func isOrdinary(msg string, args []any) bool {
	if msg == "failed to get previous log" { // a new follower has none; another cause is the disk's
		return anyIs(args, raft.ErrLogNotFound)
	}
	for _, end := range hungUp {
		if anyIs(args, end) {
			return true
		}
	}
	for _, begins := range ordinary {
		if strings.HasPrefix(msg, begins) {
			return true
		}
	}
	return false
}

func anyIs(args []any, target error) bool {
	for _, arg := range args {
		if err, ok := arg.(error); ok && errors.Is(err, target) {
			return true
		}
	}
	return false
}
