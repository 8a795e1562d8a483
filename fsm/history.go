package fsm

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// historyKept is how many of its ended attempts a task remembers.
const historyKept = 5

// maxNodeBytes is how much of a node's id a task's history keeps.
const maxNodeBytes = 64

// history is what a task remembers of its attempts, as its blob holds it: why the last one failed, and the last few
// that ended, oldest first. Most of the time the one is the other's: the text is kept once then. Like that of cold, its
// encoding lives and dies with the process; and as the state hash is taken of it, equal histories have equal encodings.
type history struct {
	lastError string
	past      []*fsmpb.Past
}

// historyOwnError marks, beside the number of attempts, a last error that is not the last attempt's.
const historyOwnError = 0x80

// appendTo writes h: the number of attempts and the mark, the last error if it is marked, the attempts.
func (h *history) appendTo(b []byte) []byte {
	own := h.lastError != h.errorOfLast()
	switch {
	case own:
		b = appendSized(append(b, byte(len(h.past))|historyOwnError), h.lastError)
	case len(h.past) > 0:
		b = append(b, byte(len(h.past)))
	}
	for _, p := range h.past {
		b = binary.AppendUvarint(b, uint64(p.Attempt))
		b = binary.AppendUvarint(b, p.Fence)
		b = binary.AppendVarint(b, p.StartedAtMs)
		b = binary.AppendVarint(b, p.EndedAtMs)
		b = appendSized(appendSized(b, p.Node), p.Error)
	}
	return b
}

func (h *history) errorOfLast() string {
	if n := len(h.past); n > 0 {
		return h.past[n-1].Error
	}
	return ""
}

// readHistory reads a blob, nil for none.
func readHistory(b []byte) history {
	var h history
	if len(b) == 0 {
		return h
	}
	own, n := b[0]&historyOwnError != 0, int(b[0]&^historyOwnError)
	in := coldReader{b[1:]}
	if own {
		h.lastError = string(in.sized())
	}
	for range n {
		h.past = append(h.past, &fsmpb.Past{
			Attempt:     uint32(in.uvarint()),
			Fence:       in.uvarint(),
			StartedAtMs: in.varint(),
			EndedAtMs:   in.varint(),
			Node:        string(in.sized()),
			Error:       string(in.sized()),
		})
	}
	if !own {
		h.lastError = h.errorOfLast()
	}
	return h
}

// add appends an attempt; the oldest one over historyKept is forgotten.
func (h *history) add(p *fsmpb.Past) {
	p.Node, p.Error = cutText(p.Node, maxNodeBytes), cutText(p.Error, MaxErrorBytes)
	h.past = append(h.past, p)
	h.past = h.past[max(0, len(h.past)-historyKept):]
	h.lastError = p.Error
}

// cutText returns as much of a text as is kept.
func cutText(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// hasPast tells whether an attempt of the current occurrence has ended.
func (s *state) hasPast(p *progress) bool {
	b := s.blob(p.history)
	return len(b) > 0 && b[0]&^historyOwnError != 0
}

// endAttempt adds the attempt that ended now to a task's history; its error is the task's last one. Of past, the fence
// is set, and what is known of start, node and error. A success may come under an earlier fence than the current one.
func (s *state) endAttempt(p *progress, past *fsmpb.Past) {
	h := readHistory(s.blob(p.history))
	past.Attempt, past.EndedAtMs = p.attempts, s.now
	if i := slices.IndexFunc(h.past, func(e *fsmpb.Past) bool { return e.Fence == past.Fence }); i >= 0 {
		past.Attempt = h.past[i].Attempt // it had been given up, and succeeded after all
		h.past = slices.Delete(h.past, i, i+1)
	}
	h.add(past)
	s.putHistory(p, &h)
}

// setLastError keeps why a task ended without an attempt's doing, or, with an empty text, that it goes on.
func (s *state) setLastError(p *progress, text string) {
	h := readHistory(s.blob(p.history))
	h.lastError = cutText(text, MaxErrorBytes)
	s.putHistory(p, &h)
}

func (s *state) putHistory(p *progress, h *history) {
	s.blobs.Free(p.history)
	s.scratch = h.appendTo(s.scratch[:0])
	p.history = s.blobs.Put(s.scratch)
}

// addTo sets what a task shows of its history.
func (h *history) addTo(t *fsmpb.Task) { t.LastError, t.History = h.lastError, h.past }

// historyOf is the reverse, for a task from a snapshot.
func historyOf(t *fsmpb.Task) *history {
	h := &history{}
	for _, p := range t.History {
		h.add(p)
	}
	h.lastError = cutText(t.LastError, MaxErrorBytes)
	return h
}
