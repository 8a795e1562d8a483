package shard

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// The limits of one entry. A single command above maxEntryBytes goes into an entry of its own.
const (
	maxEntryCommands = 1024
	maxEntryBytes    = 128 << 10
	maxPops          = 2048 // tasks that come due with one Advance: a millisecond or two of apply
)

// The field numbers of fsmpb.Entry. An entry is a concatenation of fields that were encoded separately; protobuf
// defines such a concatenation as the encoding of the message.
const (
	entryVersionField  = 1
	entryAtField       = 2
	entryCommandsField = 3
)

// errUnknownKind refuses a command of another node, whose build is newer. No replica of this build could apply it.
var errUnknownKind = errors.New("its kind is unknown to this build: upgrade this node")

// frame appends a command to buf as one element of an entry's commands.
func frame(buf []byte, cmd *fsmpb.Command) ([]byte, error) {
	if cmd.Op == nil {
		return buf, errUnknownKind
	}
	size := cmd.SizeVT()
	buf = protowire.AppendTag(buf, entryCommandsField, protowire.BytesType)
	buf = protowire.AppendVarint(buf, uint64(size))
	at := len(buf)
	buf = slices.Grow(buf, size)[:at+size]
	_, err := cmd.MarshalToSizedBufferVT(buf[at:])
	return buf, err
}

// entry is one proposal: its encoded bytes and the waiters for its results.
type entry struct {
	data     []byte
	version  uint32 // command version in data
	commands int
	planned  bool // it has more than users' commands
	takeover bool
	rules    *ruleChange   // nil: none
	series   *seriesChange // nil: none
	advance  *advance      // nil: none
	// advanceAt is the index of the Advance's result; users' results begin at usersAt, those of settles at settlesAt.
	advanceAt, usersAt, settlesAt int
	settles                       []settle
	segments                      []segment
}

// segment is a run of n commands of a call, beginning with command number from.
type segment struct {
	call    *call
	from, n int
}

func newEntry(at time.Time, size int) *entry {
	e := &entry{data: make([]byte, 0, size+32)}
	e.raise(fsm.FirstVersion)
	e.data = protowire.AppendTag(e.data, entryAtField, protowire.VarintType)
	e.data = protowire.AppendVarint(e.data, uint64(at.UnixMilli()))
	return e
}

// raise gives the entry the command version if the entry has a lower one. The encoding may have the field twice: then
// protobuf takes the last value.
func (e *entry) raise(version uint32) {
	if version <= e.version {
		return
	}
	e.version = version
	e.data = protowire.AppendTag(e.data, entryVersionField, protowire.VarintType)
	e.data = protowire.AppendVarint(e.data, uint64(version))
}

// add appends one of the leader's own commands.
func (e *entry) add(cmd *fsmpb.Command) error {
	data, err := frame(e.data, cmd)
	if err != nil {
		return err
	}
	e.data = data
	e.raise(fsm.VersionOf(cmd))
	e.commands++
	return nil
}

// addFramed appends commands that are already encoded.
func (e *entry) addFramed(framed []byte, commands int) {
	e.data = append(e.data, framed...)
	e.commands += commands
}

// advance is a request to move the wheel. The proposer sets the target time when it assembles the entry. The intake's
// mutex guards waiting until the proposer takes the request.
type advance struct{ waiting []chan<- advanced }

// wait returns a channel for the answer. ended reports whether the leadership is over: the channel then holds the
// answer.
func (a *advance) wait(ended bool) <-chan advanced {
	done := make(chan advanced, 1)
	if ended {
		done <- advanced{ended: true}
		return done
	}
	a.waiting = append(a.waiting, done)
	return done
}

// answer sends r to all channels. It never blocks, because each has room for its only answer.
func (a *advance) answer(r advanced) {
	for _, w := range a.waiting {
		w <- r
	}
}

// ruleChange is a request to set rules.
type ruleChange struct {
	rules []*fsmpb.QueueRule
	done  chan struct{} // closed when the rules are set
}

// advanced is the answer to an advance request.
type advanced struct {
	more   bool // the wheel holds more due tasks
	paused bool // the clock has jumped, and nothing was proposed
	ended  bool // the leadership is over
}

// settle is one queued settle, encoded by the goroutine of its attempt.
type settle struct {
	framed  []byte
	version uint32           // lowest command version at which it may be written
	lane    task.Lane        // the lane whose credit it frees
	how     *dispatch.Ending // the evidence about the receiver; nil: none

	rides     bool         // it may wait for other work to make an entry
	delivered bool         // the attempt has succeeded
	attempt   *openAttempt // nil: none was made
}

func newSettle(g task.Grant, op *fsmpb.Settle, how *dispatch.Ending) (settle, error) {
	op.Fence, op.Occurrence = g.Fence, g.Occurrence
	cmd := &fsmpb.Command{Namespace: g.Namespace, Id: g.ID, Op: &fsmpb.Command_Settle{Settle: op}}
	framed, err := frame(nil, cmd)
	return settle{
		framed: framed, version: fsm.VersionOf(cmd), lane: g.Lane, how: how,
		delivered: op.Verdict == fsmpb.Verdict_VERDICT_DELIVERED,
	}, err
}

// under returns the settle of the same end under a newer grant.
func (s *settle) under(g task.Grant) (settle, error) {
	renewed, err := newSettle(g, s.decode().GetSettle(), s.how)
	renewed.attempt = s.attempt
	return renewed, err
}
