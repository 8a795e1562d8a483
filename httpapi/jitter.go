package httpapi

import (
	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/task"
)

// spread moves the instant back by a part of the jitter that only the task's name decides: tasks of one instant are
// spread over the window, and a call that is repeated comes to the same instant. It is done before the call is
// committed, so the log knows nothing of it.
func (p *plan) spread(namespace, id string) {
	if p.jitterMs > 0 {
		p.msg.FireAtMs += int64(jitterHash(namespace, id) % uint64(p.jitterMs+1))
	}
}

// jitterHash differs from the hash that shards go by: those of one slot shall not share an offset.
func jitterHash(namespace, id string) uint64 {
	if namespace == "" {
		namespace = task.DefaultNamespace
	}
	var d xxhash.Digest
	d.ResetWithSeed(jitterSeed)
	_, _ = d.WriteString(namespace) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(id)
	return d.Sum64()
}

const jitterSeed = 0x6a69747465720001 // "jitter", 1
