package store

import (
	"encoding/binary"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

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
