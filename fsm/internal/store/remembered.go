package store

import (
	"encoding/binary"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// remembered is a keyed call with its answer: see fsmpb.RememberedKey. All keys of a task, except a firstKey, lie in
// one blob, one behind the other. Its encoding lives and dies with the process, like that of cold, and leaves out the
// values that the cold blob contains already.
type remembered struct {
	hash, call      uint64
	code            fsmpb.Code
	previous, state fsmpb.State
	outcome         fsmpb.CancelOutcome
	attempts        uint32
	revision        uint64
	occurrence      uint64 // 0: the revision
	fireAt, created int64
	next            int64 // next attempt; of a schedule, the number of the occurrence that the call has started
	lastError       string
	unchanged       bool // the call changed no task
}

const (
	keySchedules      = 1 << iota // the call made the task: no codes follow
	keyOwnRevision                // revision follows: it differs from the cold blob's occurrence
	keyOccurrence                 // occurrence is the cold blob's
	keyOwnOccurrence              // occurrence follows
	keyOwnCreated                 // created follows: it differs from the cold blob's
	keyAttempts                   // attempts follow
	keyNext                       // next follows
	keyLastError                  // lastError follows
	rememberedKeySize = 16

	keyUnchanged = 0x80 // set in the byte of the code
)

// appendTo appends the encoding of k to b: flags, hash, call, fireAt, the parts that the flags name. c is the head of
// the task's cold blob.
func (k *remembered) appendTo(b []byte, c *coldHead) []byte {
	at := len(b)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, k.hash)
	b = binary.LittleEndian.AppendUint64(b, k.call)
	b = binary.AppendVarint(b, k.fireAt-k.created)
	flags := byte(0)
	if k.schedules() {
		flags |= keySchedules
	} else {
		code := byte(k.code)
		if k.unchanged {
			code |= keyUnchanged
		}
		b = append(b, code, byte(k.previous), byte(k.state), byte(k.outcome))
	}
	if k.revision != c.occurrence {
		flags |= keyOwnRevision
		b = binary.AppendUvarint(b, k.revision)
	}
	switch k.occurrence {
	case 0:
	case c.occurrence:
		flags |= keyOccurrence
	default:
		flags |= keyOwnOccurrence
		b = binary.AppendUvarint(b, k.occurrence)
	}
	if k.created != c.created {
		flags |= keyOwnCreated
		b = binary.AppendVarint(b, k.created)
	}
	if k.attempts > 0 {
		flags |= keyAttempts
		b = binary.AppendUvarint(b, uint64(k.attempts))
	}
	if k.next != 0 {
		flags |= keyNext
		b = binary.AppendVarint(b, k.next)
	}
	if k.lastError != "" {
		flags |= keyLastError
		b = appendSized(b, k.lastError)
	}
	b[at] = flags
	return b
}

// schedules reports whether k's codes are those of a call that made a task where there was none.
func (k *remembered) schedules() bool {
	return k.code == fsmpb.Code_CODE_CREATED && k.previous == 0 && k.state == fsmpb.State_STATE_SCHEDULED &&
		k.outcome == 0 && !k.unchanged
}

// readKeys decodes a blob of keys and appends them to keys. A nil blob has none. c is the head that the keys were
// encoded with.
func readKeys(keys []remembered, b []byte, c *coldHead) []remembered {
	for in := (coldReader{b}); len(in.rest) > 0; {
		keys = append(keys, readRemembered(&in, c))
	}
	return keys
}

func readRemembered(in *coldReader, c *coldHead) remembered {
	flags := in.rest[0]
	k := remembered{
		hash: binary.LittleEndian.Uint64(in.rest[1:]), call: binary.LittleEndian.Uint64(in.rest[9:]),
		code: fsmpb.Code_CODE_CREATED, state: fsmpb.State_STATE_SCHEDULED, revision: c.occurrence, created: c.created,
	}
	in.rest = in.rest[1+rememberedKeySize:]
	wait := in.varint()
	if flags&keySchedules == 0 {
		k.code, k.previous = fsmpb.Code(in.rest[0]&^keyUnchanged), fsmpb.State(in.rest[1])
		k.unchanged = in.rest[0]&keyUnchanged != 0
		k.state, k.outcome = fsmpb.State(in.rest[2]), fsmpb.CancelOutcome(in.rest[3])
		in.rest = in.rest[4:]
	}
	if flags&keyOwnRevision != 0 {
		k.revision = in.uvarint()
	}
	switch {
	case flags&keyOccurrence != 0:
		k.occurrence = c.occurrence
	case flags&keyOwnOccurrence != 0:
		k.occurrence = in.uvarint()
	}
	if flags&keyOwnCreated != 0 {
		k.created = in.varint()
	}
	k.fireAt = k.created + wait
	if flags&keyAttempts != 0 {
		k.attempts = uint32(in.uvarint())
	}
	if flags&keyNext != 0 {
		k.next = in.varint()
	}
	if flags&keyLastError != 0 {
		k.lastError = string(in.sized())
	}
	return k
}

// fill writes k to the message m, with key as its key.
func (k *remembered) fill(m *fsmpb.RememberedKey, key *fsmpb.Key) {
	*key = fsmpb.Key{Hash: k.hash, Call: k.call}
	*m = fsmpb.RememberedKey{
		Key:  key,
		Code: k.code, Revision: k.revision, Previous: k.previous, Outcome: k.outcome, State: k.state, Attempts: k.attempts,
		FireAtMs: k.fireAt, CreatedAtMs: k.created, Occurrence: k.occurrence, NextAttemptAtMs: k.next, LastError: k.lastError,
		Unchanged: k.unchanged,
	}
}

func rememberedOf(m *fsmpb.RememberedKey) remembered {
	return remembered{
		hash: m.Key.GetHash(), call: m.Key.GetCall(),
		code: m.Code, revision: m.Revision, previous: m.Previous, outcome: m.Outcome, state: m.State, attempts: m.Attempts,
		fireAt: m.FireAtMs, created: m.CreatedAtMs, occurrence: m.Occurrence, next: m.NextAttemptAtMs, lastError: m.LastError,
		unchanged: m.Unchanged,
	}
}

// firstKey is the key of the call that made a task. It stays in the task's cold blob as long as the task is due at the
// instant that the call set and no earlier key is remembered: the task's own fields then have the rest of the call's
// answer. Most tasks therefore have no second blob, and their key takes only its two hashes. The zero firstKey is no
// key.
type firstKey struct {
	hash, call uint64
	kept       bool
}

// firstKeyOf returns the firstKey of a call's key, and the zero firstKey for nil.
func firstKeyOf(key *fsmpb.Key) firstKey {
	if key == nil {
		return firstKey{}
	}
	return firstKey{hash: key.Hash, call: key.Call, kept: true}
}

// appendTo appends an occurrence, with a bit that is set if a key follows, and the key.
func (k firstKey) appendTo(b []byte, occurrence uint64) []byte {
	if !k.kept {
		return binary.AppendUvarint(b, occurrence<<1)
	}
	b = binary.AppendUvarint(b, occurrence<<1|1)
	b = binary.LittleEndian.AppendUint64(b, k.hash)
	return binary.LittleEndian.AppendUint64(b, k.call)
}

func readFirstKey(in *coldReader) (occurrence uint64, k firstKey) {
	v := in.uvarint()
	if v&1 != 0 {
		k = firstKey{
			hash: binary.LittleEndian.Uint64(in.rest), call: binary.LittleEndian.Uint64(in.rest[8:]), kept: true,
		}
		in.rest = in.rest[rememberedKeySize:]
	}
	return v >> 1, k
}

// appendFirst appends the record of the call that made the task, if its key is in the head. The task is due at fireAt.
func (c *coldHead) appendFirst(keys []remembered, fireAt int64) []remembered {
	if !c.first.kept {
		return keys
	}
	return append(keys, remembered{
		hash: c.first.hash, call: c.first.call, code: fsmpb.Code_CODE_CREATED, state: fsmpb.State_STATE_SCHEDULED,
		revision: c.occurrence, fireAt: fireAt, created: c.created,
	})
}

// takeFirst moves a key into the head if the head and fireAt determine all other values recorded with the key.
func (c *coldHead) takeFirst(k *remembered, fireAt int64) {
	c.first = firstKey{hash: k.hash, call: k.call, kept: true}
	var room [1]remembered
	if c.appendFirst(room[:0], fireAt)[0] != *k {
		c.first = firstKey{}
	}
}
