package lossyfs

// pageSet is a set of a file's pages. Its zero value is empty.
type pageSet struct {
	bits []uint64
	n    int64 // number of pages in the set
}

func (s *pageSet) has(index int64) bool {
	word := index / 64
	return word < int64(len(s.bits)) && s.bits[word]&(1<<(index%64)) != 0
}

// add adds the pages from first to before end, and returns how many of them were not in the set before.
func (s *pageSet) add(first, end int64) int64 {
	before := s.n
	for index := first; index < end; index++ {
		if s.has(index) {
			continue
		}
		for index/64 >= int64(len(s.bits)) {
			s.bits = append(s.bits, 0)
		}
		s.bits[index/64] |= 1 << (index % 64)
		s.n++
	}
	return s.n - before
}

// cut removes all pages from first on, and returns how many it removed.
func (s *pageSet) cut(first int64) int64 {
	before := s.n
	for index := first; index < int64(len(s.bits))*64; index++ {
		if s.has(index) {
			s.bits[index/64] &^= 1 << (index % 64)
			s.n--
		}
	}
	return before - s.n
}
