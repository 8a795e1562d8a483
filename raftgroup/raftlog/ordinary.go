package raftlog

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/hashicorp/raft"
)

// ordinary lists the prefixes of Warn and Error records that Raft writes for each group when nodes start, stop and take
// turns: elections, followers that are behind, and peers that do not answer or hang up. They are shown at Info. The
// mesh logs one warning for a dead node.
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

// hungUp lists the errors of connections whose other end stops.
var hungUp = []error{raft.ErrTransportShutdown, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE}

// isOrdinary reports whether a record needs no operator's attention.
func isOrdinary(msg string, args []any) bool {
	if msg == "failed to get previous log" { // a new follower has no previous log; another cause is a fault of the disk
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
