package store

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// The state hash is a sum, modulo 2^64, of three hashes a task: its record and progress, its blob, its remembered
// keys. A change subtracts the old hash (lift) and adds the new one (land), so the hash costs no more than the change
// and does not depend on the order of tasks. It detects replicas that diverged; it is no protection against forgery.

// Hash returns the state hash: the sum over all tasks combined with the state of the shard as a whole.
func (s *Store) Hash() uint64 {
	d := digester{}
	d.uint(s.sum)
	d.uint(s.Number)
	d.int(s.NowMs)
	d.int(s.wheel.Position())
	d.uint(s.Origins.Own)
	d.int(s.TombstoneBound)
	d.int(s.HorizonMs)
	d.int(s.KeepDoneMs)
	if s.mem.queues.rules > 0 {
		d.uint(s.mem.queues.rulesSum)
	}
	for _, i := range s.Origins.Inherited {
		d.uint(uint64(i.FirstSlot)<<32 | uint64(i.EndSlot))
		d.uint(i.Last)
		d.uint(i.Origin)
	}
	for _, p := range s.Slots.Parts() {
		d.uint(uint64(p.First)<<32 | uint64(p.End))
		d.uint(uint64(p.Phase)<<32 | uint64(p.Shard))
		d.uint(p.Move)
		d.uint(p.Epoch)
	}
	if c := s.Moves.coming; c != nil {
		d.uint(c.move)
		d.uint(c.tasks)
		d.uint(c.sum)
		d.bool(c.keepsNumbers)
	}
	return d.sum()
}

// identity holds the parts of the state hash and of the counts that come from a task's id. They never change.
type identity struct {
	slot uint32
	sum  uint64 // see idDigest
}

// identityOf returns the identity of a task in a slot.
func (m *memory) identityOf(slot uint32, h handle) identity {
	return identity{slot, m.idDigest(m.tasks.Read(h))}
}

// lift subtracts a task's record from the state hash and the counts, before the record changes.
func (s *Store) lift(h handle, id identity) {
	if s.Moves.watch != nil {
		s.Moves.watch.lift(s, h)
	}
	s.sum -= s.mem.digest(h, id.sum)
	s.tally(s.mem.tasks.Read(h), id.slot, -1)
}

// land adds a task's record to the state hash and the counts, after the record has changed.
func (s *Store) land(h handle, id identity) {
	s.sum += s.mem.digest(h, id.sum)
	s.tally(s.mem.tasks.Read(h), id.slot, 1)
	if s.Moves.watch != nil {
		s.Moves.watch.land(s, h)
	}
}

// digest hashes a record, with the hash of its id, and its progress. Handles, links and interned numbers differ between
// replicas and stay out.
func (m *memory) digest(h handle, id uint64) uint64 {
	r := m.tasks.Read(h)
	d := digester{}
	d.uint(id)
	d.uint(uint64(r.state))
	if r.waits || r.parked {
		d.int(r.Due())
		d.uint(r.Seq())
	}
	if r.parked {
		d.bool(true)
	}
	if r.progress != 0 {
		p := m.progress.Read(r.progress)
		d.int(p.fireAt)
		d.uint(p.revision)
		d.uint(p.fence)
		d.int(p.order)
		d.uint(uint64(p.attempts))
		d.uint(uint64(p.outcome))
		d.history(m.blob(p.history))
		if p.leased {
			d.bool(true)
		}
	}
	return d.sum()
}

// contentDigest hashes the parts of a task that stay when the task moves to another shard: all but its numbers in the
// wheel and in lists.
func (m *memory) contentDigest(h handle) uint64 {
	r := m.tasks.Read(h)
	c := readCold(m.blobs.Get(r.cold))
	d := digester{}
	d.uint(m.digestCold(r, &c))
	d.uint(m.keysDigest(r))
	d.uint(m.idDigest(r))
	d.uint(uint64(r.state))
	if r.waits || r.parked {
		d.int(r.Due())
	}
	d.int(m.fireAtOf(r))
	d.uint(m.revisionOf(r))
	if r.progress != 0 && !r.is(fsmpb.State_STATE_SCHEDULED) {
		p := m.progress.Read(r.progress)
		d.uint(p.fence)
		d.uint(uint64(p.attempts))
		d.uint(uint64(p.outcome))
		d.history(m.blob(p.history))
		d.bool(p.leased)
	}
	return d.sum()
}

// idDigest hashes a task's namespace and id. Every replica gets the same value, whether the id is inline or not.
func (m *memory) idDigest(r *record) uint64 {
	d := digester{}
	if r.idLen != 0 {
		d.string(task.DefaultNamespace)
		d.bytes(r.id[:r.idLen])
	} else {
		namespace, id := m.idOf(r)
		d.string(namespace)
		d.string(id)
	}
	return d.sum()
}

// digestCold hashes the content of a blob. Shared values enter by their content, not by their numbers.
func (m *memory) digestCold(r *record, c *cold) uint64 { return m.digestContent(r, c, m.extraOf(c)) }

func (m *memory) digestContent(r *record, c *cold, extra *fsmpb.Extra) uint64 {
	d := digester{}
	if c.id != "" {
		d.string(c.namespace)
		d.string(c.id)
	} else {
		d.bytes(r.id[:r.idLen])
	}
	d.int(c.created)
	d.uint(c.occurrence)
	d.int(c.delay)
	d.bool(c.asBytes)
	d.uint(xxhash.Sum64(c.payload))
	d.string(m.queues.at(c.queue).name)
	if t := m.targetOf(c, extra); t != nil {
		d.target(t)
	}
	spec := extra.Spec
	if sum := m.mannerSum(c, extra); sum != 0 || spec.Traceparent != "" || spec.Group != "" {
		d.uint(sum)
		d.string(spec.Traceparent)
		d.string(spec.Group)
	}
	if extra.Series != nil {
		d.message(extra.Series)
	}
	if spec.ScheduledMs != 0 {
		d.int(spec.ScheduledMs)
	}
	if bringsPayload(spec) {
		d.message(&fsmpb.Spec{OnDelivered: spec.OnDelivered, OnDead: spec.OnDead})
	}
	return d.sum()
}

// keysDigest hashes the keys of a task. It is 0 if the task remembers none.
func (m *memory) keysDigest(r *record) uint64 {
	var kept [keysRemembered]remembered
	keys := m.keysOf(kept[:0], r)
	if len(keys) == 0 {
		return 0
	}
	d := digester{}
	d.uint(m.idDigest(r))
	for i := range keys {
		k := &keys[i]
		d.uint(k.hash)
		d.uint(k.call)
		d.uint(uint64(k.code))
		d.uint(k.revision)
		d.uint(uint64(k.previous))
		d.uint(uint64(k.outcome))
		d.uint(uint64(k.state))
		d.uint(uint64(k.attempts))
		d.int(k.fireAt)
		d.int(k.created)
		d.uint(k.occurrence)
		d.int(k.next)
		d.string(k.lastError)
		if k.unchanged {
			d.uint(1)
		}
	}
	return d.sum()
}

// digester hashes fields one after another. Most digests fit the buffer and are hashed in one go.
type digester struct {
	buf [256]byte
	n   int
	d   xxhash.Digest
	big bool // buf has been flushed into d
}

func (d *digester) room(n int) {
	if d.n+n <= len(d.buf) {
		return
	}
	d.flush()
}

func (d *digester) flush() {
	if !d.big {
		d.d.Reset()
		d.big = true
	}
	_, _ = d.d.Write(d.buf[:d.n]) // never fails
	d.n = 0
}

func (d *digester) uint(v uint64) {
	d.room(8)
	binary.LittleEndian.PutUint64(d.buf[d.n:], v)
	d.n += 8
}

func (d *digester) int(v int64) { d.uint(uint64(v)) }

func (d *digester) bool(v bool) {
	if v {
		d.uint(1)
	} else {
		d.uint(0)
	}
}

func (d *digester) bytes(b []byte) { sized(d, b) }

func (d *digester) string(v string) { sized(d, v) }

// sized hashes the length of v, then its bytes.
func sized[T string | []byte](d *digester, v T) {
	d.uint(uint64(len(v)))
	for len(v) > 0 {
		d.room(1)
		k := copy(d.buf[d.n:], v)
		d.n += k
		v = v[k:]
	}
}

// message hashes the encoding of a message, which is the same for equal messages.
func (d *digester) message(m sizedMessage) { d.bytes(mustMarshal(m)) }

func (d *digester) target(t *fsmpb.Target) {
	d.string(t.Url)
	d.string(t.Method)
	d.int(t.TimeoutMs)
	for _, h := range t.Headers {
		d.string(h.Name)
		d.string(h.Value)
	}
	if a := t.Auth; a != nil {
		d.string(a.ClientCertificate)
		d.string(a.Jwt.GetAudience())
		d.string(a.Jwt.GetAlgorithm())
		d.bytes(a.Jwt.GetClaims())
	}
}

// history hashes a history's blob, nil for none.
func (d *digester) history(b []byte) {
	if len(b) == 0 {
		d.bytes(nil)
		return
	}
	own, n, in := openHistory(b)
	d.bytes(own)
	for range n {
		d.uint(in.uvarint())
		d.uint(in.uvarint())
		d.int(in.varint())
		d.int(in.varint())
		d.bytes(in.sized())
		d.bytes(in.sized())
	}
}

func (d *digester) sum() uint64 {
	if !d.big {
		return xxhash.Sum64(d.buf[:d.n])
	}
	d.flush()
	return d.d.Sum64()
}
