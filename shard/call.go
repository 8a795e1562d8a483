package shard

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// call holds the commands of one Do. The caller's goroutine encodes them, so that the proposer only copies bytes. The
// proposer takes the commands in order, perhaps into several entries. The intake's mutex guards the call.
type call struct {
	namespace string

	data    []byte // the commands, framed
	ends    []int  // the end of each command in data
	version uint32 // lowest command version at which they may be written
	ofUser  bool   // at least one command comes from a user, not from a consumer with a lease
	rides   bool   // the call may wait for other work to make an entry
	replies []task.Reply
	// 0 <= answered <= taken <= len(ends)
	taken    int
	answered int
	refusal  error         // the answer to the commands that are not taken any more; nil: they may be taken
	gone     bool          // the caller has left and owns replies; no further command is taken
	done     chan struct{} // closed when all are answered; after the caller has left, all that were taken
}

// newCall encodes commands.
func newCall(cmds []*fsmpb.Command) (*call, error) {
	const frameBytes = 4 // of a command's tag and length
	size := 0
	for _, cmd := range cmds {
		size += cmd.SizeVT() + frameBytes
	}
	c := &call{
		namespace: namespaceOf(cmds),

		data:    make([]byte, 0, size),
		ends:    make([]int, 0, len(cmds)),
		replies: make([]task.Reply, len(cmds)),
		done:    make(chan struct{}),
	}
	for i, cmd := range cmds {
		var err error
		if c.data, err = frame(c.data, cmd); err != nil {
			return nil, fmt.Errorf("command %d of %d: %w", i+1, len(cmds), err)
		}
		c.ends = append(c.ends, len(c.data))
		c.version = max(c.version, fsm.VersionOf(cmd))
		c.ofUser = c.ofUser || !isOfLease(cmd)
	}
	return c, nil
}

// namespaceOf returns the namespace that a call counts for: that of its first command.
func namespaceOf(cmds []*fsmpb.Command) string {
	if len(cmds) == 0 {
		return task.DefaultNamespace
	}
	return task.CanonicalNamespace(cmds[0].Namespace)
}

// isOfLease reports whether a command settles or extends a consumer's lease, and so belongs to an attempt.
func isOfLease(cmd *fsmpb.Command) bool {
	switch cmd.Op.(type) {
	case *fsmpb.Command_Settle, *fsmpb.Command_Extend:
		return true
	}
	return false
}

// bytes returns the framed commands [from, to).
func (c *call) bytes(from, to int) []byte {
	begin := 0
	if from > 0 {
		begin = c.ends[from-1]
	}
	return c.data[begin:c.ends[to-1]]
}

// waiting returns the size in bytes of the commands that the proposer has not yet taken.
func (c *call) waiting() int {
	if c.taken == len(c.ends) {
		return 0
	}
	return len(c.bytes(c.taken, len(c.ends)))
}

// fit returns the number of untaken commands, in order, that fit into the given numbers of commands and bytes.
func (c *call) fit(commands, bytes int) int {
	n := 0
	for c.taken+n < len(c.ends) && n < commands && len(c.bytes(c.taken, c.taken+n+1)) <= bytes {
		n++
	}
	return n
}

// answer stores the next replies, in order. It only counts them if the caller has left.
func (c *call) answer(replies []task.Reply) {
	last := len(c.ends)
	if c.gone {
		last = c.taken
	} else {
		copy(c.replies[c.answered:], replies)
	}
	if c.answered += len(replies); c.answered == last {
		close(c.done)
	}
}

// refuseRest answers the commands that are not taken any more, once those that were taken have their answers.
func (c *call) refuseRest() {
	if c.refusal != nil && !c.gone && c.taken < len(c.ends) && c.answered == c.taken {
		c.answer(refuse(len(c.ends)-c.taken, c.refusal))
	}
}

// leave ends the wait of a caller whose context has ended. Taken commands may still commit and get the error unknown;
// the other commands never will and get notProposed.
func (c *call) leave(unknown, notProposed error) {
	c.gone = true
	for i := c.answered; i < len(c.ends); i++ {
		c.replies[i].Err = notProposed
		if i < c.taken {
			c.replies[i].Err = unknown
		}
	}
	if c.answered == c.taken {
		close(c.done)
	}
}

// refuse returns n replies with the same error.
func refuse(n int, err error) []task.Reply {
	replies := make([]task.Reply, n)
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// errEnded is the cause of a leadership that ends without an error.
var errEnded = errors.New("the leadership is over")

// neverTaken reports whether an error of a proposal proves that no replica applies the entry.
func neverTaken(err error) bool {
	return errors.Is(err, raftgroup.ErrRefused) || errors.Is(err, raftgroup.ErrNotLeader) ||
		errors.Is(err, raftgroup.ErrReplaced)
}

// errorOf converts a proposal's error into the caller's error. Every error except the few that precede the write
// of the entry is ambiguous: a log that holds the entry may yet prevail.
func (p *proposer) errorOf(err error) error {
	if neverTaken(err) {
		return p.shard.notLeader()
	}
	return fmt.Errorf("%w: %w", task.ErrUnknown, err)
}

// notLeader returns an error with the leader that this replica knows of.
func (s *Shard) notLeader() error {
	leader, _ := s.Leader()
	return &task.NotLeaderError{Shard: s.cfg.ID, Leader: leader}
}
