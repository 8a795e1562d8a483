package raftgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrReplaced is the error of an entry whose place in the log another one has taken. No replica will ever apply it.
var ErrReplaced = errors.New("another entry has taken its place in the log")

// LostError is the error of Commit for an entry that was under way when the leadership ended. The next leader keeps the
// entry or replaces it. The caller must call Outcome once.
type LostError struct {
	group *Group
	fate  *fate
	err   error
}

func (e *LostError) Error() string { return e.err.Error() }
func (e *LostError) Unwrap() error { return e.err }

// Outcome waits until this replica has applied the entry under the next leader, and returns the machine's answer. The
// error is ErrReplaced if the replica has applied another entry in its place. If the replica learns neither before ctx
// ends, the entry may be committed later.
func (e *LostError) Outcome(ctx context.Context) (any, error) {
	defer e.group.applier.fates.forget(e.fate)
	select {
	case <-e.fate.decided:
	case <-e.group.futures.down:
		return nil, fmt.Errorf("%w: %w", e.err, errStopped)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", e.err, context.Cause(ctx))
	}
	if !e.fate.kept {
		return nil, ErrReplaced
	}
	if failed, ok := e.fate.answer.(failure); ok {
		return nil, failed.err
	}
	return e.fate.answer, nil
}

// fates follows the entries that this replica has proposed and not yet seen decided: mostly the one that is under way.
type fates struct {
	mu   sync.Mutex // guards list and every fate in it
	list []*fate
}

// fate is what becomes of one proposed entry.
type fate struct {
	data    []byte
	index   uint64        // its place in the log; 0: not known yet
	applied uint64        // the last entry applied since the proposal
	alike   uint64        // the last entry applied since that has the same bytes; 0: none
	answer  any           // of alike
	covered bool          // a snapshot was restored since: the entry may be part of it
	kept    bool          // it is committed; set before decided is closed
	decided chan struct{} // closed when the entry is known to be committed or replaced
}

// follow begins to follow an entry. It is called before the entry is proposed, and so before any replica applies it.
func (f *fates) follow(data []byte) *fate {
	one := &fate{data: data, decided: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, one)
	return one
}

func (f *fates) forget(one *fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(f.list, func(other *fate) bool { return other == one })
}

// place sets the entry's place in the log.
func (f *fates) place(one *fate, index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.index = index
	one.decide()
}

// see reports an applied entry. Entries are seen in the order of the log.
func (f *fates) see(index uint64, data []byte, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.list {
		one.applied = index
		if bytes.Equal(one.data, data) { // cheap for a leader's own entry, whose bytes are the same memory
			one.alike, one.answer = index, answer
		}
		one.decide()
	}
}

// cover reports a restored snapshot, which has replaced the state without a word about single entries.
func (f *fates) cover() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.list {
		one.covered = true
	}
}

// decide closes decided once the entry is known to be committed or replaced. Raft's own entries do not reach the
// machine, so a later entry than the one in its place also tells that it is replaced.
func (one *fate) decide() {
	isKept := one.alike == one.index
	if one.index == 0 || one.applied < one.index || one.covered && !isKept || one.isDecided() {
		return
	}
	one.kept = isKept
	close(one.decided)
}

func (one *fate) isDecided() bool {
	select {
	case <-one.decided:
		return true
	default:
		return false
	}
}
