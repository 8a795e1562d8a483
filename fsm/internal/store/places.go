package store

import (
	"slices"
	"sort"
	"unsafe"
)

// places is a sorted set of places, in blocks of some hundred. A place behind all places of a full block goes to the
// next block, or begins one, so that places which come in order fill their blocks. Otherwise a full block is split. A
// block with few places left joins the next one.
//
// Why not a B-tree by the module that ranked uses? A search there calls a function for each comparison, which takes
// three times as long, and due times that rise leave its nodes half full.
type places struct {
	blocks [][]duePlace // none is empty
	firsts []duePlace   // the first place of each block, for the search
	count  int
}

// blockPlaces is the number of places in 4 KiB. Larger blocks move more memory with each place, smaller ones move more
// of the list of blocks.
const blockPlaces = 4096 / 12

// search returns the block where p belongs, and the index of the first place in it that is not before p. There must be
// a block.
func (s *places) search(p duePlace) (block, i int) {
	block = max(0, sort.Search(len(s.firsts), func(i int) bool { return p.before(s.firsts[i]) })-1)
	places := s.blocks[block]
	return block, sort.Search(len(places), func(i int) bool { return !places[i].before(p) })
}

func (s *places) has(p duePlace) bool {
	if len(s.blocks) == 0 {
		return false
	}
	block, i := s.search(p)
	return i < len(s.blocks[block]) && s.blocks[block][i] == p
}

// from returns the places from p on, in blocks.
func (s *places) from(p duePlace) (first []duePlace, rest [][]duePlace) {
	if len(s.blocks) == 0 {
		return nil, nil
	}
	block, i := s.search(p)
	return s.blocks[block][i:], s.blocks[block+1:]
}

// add adds a place. The set must not have it.
func (s *places) add(p duePlace) {
	s.count++
	if len(s.blocks) == 0 {
		s.insert(0, append(newBlock(), p))
		return
	}
	const half = blockPlaces / 2
	block, i := s.search(p)
	switch full := s.blocks[block]; {
	case len(full) < blockPlaces:
	case i < len(full):
		s.insert(block+1, append(newBlock(), full[half:]...))
		s.blocks[block] = full[:half]
		if i > half {
			block, i = block+1, i-half
		}
	case block+1 < len(s.blocks) && len(s.blocks[block+1]) < blockPlaces:
		block, i = block+1, 0
	default:
		s.insert(block+1, append(newBlock(), p))
		return
	}
	s.blocks[block] = slices.Insert(s.blocks[block], i, p)
	s.firsts[block] = s.blocks[block][0]
}

func newBlock() []duePlace { return make([]duePlace, 0, blockPlaces) }

func (s *places) insert(block int, places []duePlace) {
	s.blocks = slices.Insert(s.blocks, block, places)
	s.firsts = slices.Insert(s.firsts, block, places[0])
}

// remove removes a place, and reports whether the set had it.
func (s *places) remove(p duePlace) bool {
	if s.count == 0 {
		return false
	}
	block, i := s.search(p)
	if i == len(s.blocks[block]) || s.blocks[block][i] != p {
		return false
	}
	s.count--
	left := slices.Delete(s.blocks[block], i, i+1)
	if s.blocks[block] = left; len(left) == 0 {
		s.drop(block)
		return true
	}
	s.firsts[block] = left[0]
	if len(left) < blockPlaces/4 {
		s.join(block)
	}
	return true
}

// join joins a block with one of its neighbours, if both together have few places.
func (s *places) join(block int) {
	for _, b := range []int{block, block - 1} {
		if b >= 0 && b+1 < len(s.blocks) && len(s.blocks[b])+len(s.blocks[b+1]) <= blockPlaces/2 {
			s.blocks[b] = append(s.blocks[b], s.blocks[b+1]...)
			s.drop(b + 1)
			return
		}
	}
}

func (s *places) drop(block int) {
	s.blocks = slices.Delete(s.blocks, block, block+1)
	s.firsts = slices.Delete(s.firsts, block, block+1)
}

// bytes returns the bytes that the set holds.
func (s *places) bytes() int64 {
	const place, header = int64(unsafe.Sizeof(duePlace{})), int64(unsafe.Sizeof([]duePlace(nil)))
	return int64(len(s.blocks))*blockPlaces*place + int64(cap(s.blocks))*header + int64(cap(s.firsts))*place
}
