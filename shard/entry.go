package shard

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/throttle"
)

// What one entry holds at most. A single command over the bytes goes alone.
const (
	maxEntryCommands = 1024
	maxEntryBytes    = 128 << 10
	maxEntryInternal = 768  // of the commands: users are never shut out
	maxAdvance       = 2048 // tasks popped by one Advance: a millisecond or two of apply
)

// Field numbers of fsmpb.Entry. An entry is put together from parts that were encoded elsewhere; protobuf defines the
// concatenation of encoded fields to be the encoding of the message.
const (
	entryVersionField  = 1
	entryAtField       = 2
	entryCommandsField = 3
)

// frame appends a command as one element of an entry's commands.
func frame(buf []byte, cmd *fsmpb.Command) ([]byte, error) {
	size := cmd.SizeVT()
	buf = protowire.AppendTag(buf, entryCommandsField, protowire.BytesType)
	buf = protowire.AppendVarint(buf, uint64(size))
	at := len(buf)
	buf = slices.Grow(buf, size)[:at+size]
	_, err := cmd.MarshalToSizedBufferVT(buf[at:])
	return buf, err
}

// entry is one proposal: its bytes, and who waits for which of its results.
type entry struct {
	data     []byte
	commands int
	takeover bool
	settles  int
	rules    *ruleChange // nil: none
	advance  *advance    // nil: none
	// advanceAt is the number of the Advance's result; users' results begin at usersAt.
	advanceAt, usersAt int
	segments           []segment
}

// segment is n commands of a call, from the one with that number on.
type segment struct {
	call    *call
	from, n int
}

func newEntry(at time.Time, size int) *entry {
	data := make([]byte, 0, size+32)
	data = protowire.AppendTag(data, entryVersionField, protowire.VarintType)
	data = protowire.AppendVarint(data, fsm.CommandVersion)
	data = protowire.AppendTag(data, entryAtField, protowire.VarintType)
	data = protowire.AppendVarint(data, uint64(at.UnixMilli()))
	return &entry{data: data}
}

// add appends one command of the leader's own.
func (e *entry) add(cmd *fsmpb.Command) error {
	data, err := frame(e.data, cmd)
	if err != nil {
		return err
	}
	e.data = data
	e.commands++
	return nil
}

// addFramed appends commands that are encoded already.
func (e *entry) addFramed(framed []byte, commands int) {
	e.data = append(e.data, framed...)
	e.commands += commands
}

// advance asks for the wheel to be moved; its instant is set when the entry is put together.
type advance struct{ done chan advanced }

// ruleChange asks for rules to be set.
type ruleChange struct {
	rules []*fsmpb.QueueRule
	done  chan struct{} // closed when they are
}

// advanced answers it.
type advanced struct {
	more   bool // the wheel holds more that is due
	paused bool // the clock is not to be trusted: nothing was proposed
	ended  bool // the leadership is over
}

// settle is one settle on its way, encoded by the goroutine of its attempt.
type settle struct {
	framed []byte
	lane   task.Lane        // whose credit it frees
	how    *throttle.Ending // what it says about the receiver; nil: nothing
}

func newSettle(g task.Grant, op *fsmpb.Settle, how *throttle.Ending) (settle, error) {
	op.Fence, op.Occurrence = g.Fence, g.Occurrence
	framed, err := frame(nil, &fsmpb.Command{
		Namespace: g.Namespace, Id: g.ID, Op: &fsmpb.Command_Settle{Settle: op},
	})
	return settle{framed: framed, lane: g.Lane, how: how}, err
}
