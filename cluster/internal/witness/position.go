package witness

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/belfryhq/belfry/raftgroup/logstore"
)

// Position is a place in the history of a Raft group's replica.
type Position struct {
	Term      uint64 // the replica's current term
	Index     uint64 // of an entry that it holds in that term; 0: none is known
	EntryTerm uint64 // in which that entry was written
}

// Before reports whether p comes before q: by term, and by index within a term.
func (p Position) Before(q Position) bool {
	return p.Term < q.Term || p.Term == q.Term && p.Index < q.Index
}

// String returns the term and the index.
func (p Position) String() string { return fmt.Sprintf("term %d, index %d", p.Term, p.Index) }

// Lost compares a replica's term and last index with p, the term and last applied entry that its node had recorded. It
// returns nil if nothing is lost, and else an error that names the loss.
func (p Position) Lost(term, last uint64) error {
	if term >= p.Term && last >= p.Index {
		return nil
	}
	return fmt.Errorf("%w: it ends at term %d, index %d, and by this node's own record it was in term %d and had applied "+
		"index %d", logstore.ErrLostLog, term, last, p.Term, p.Index)
}

// Run is one start of a node.
type Run struct {
	Boot  uint64 // number of starts of the node's folder, this start included; 0: no run
	Nonce uint64 // drawn at the start; never 0
	Addr  string // host:port at which other nodes dial it
}

// NewRun returns the run of a node that starts now, with a nonce that identifies it.
func NewRun(boot uint64, addr string) Run {
	var nonce [8]byte
	for binary.BigEndian.Uint64(nonce[:]) == 0 {
		_, _ = rand.Read(nonce[:]) // never fails
	}
	return Run{Boot: boot, Nonce: binary.BigEndian.Uint64(nonce[:]), Addr: addr}
}

// outdates reports whether r shows that other is not the newest run of its node.
func (r Run) outdates(other Run) bool {
	return r.Boot > other.Boot || r.Boot == other.Boot && r.Boot > 0 && r.Nonce != other.Nonce
}
