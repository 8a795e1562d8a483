package httpapi

import "bytes"

// framer cuts a stream into lines. It holds little more than one line of the limit; what it hands out is never
// overwritten, so that payloads can go on pointing into it.
type framer struct {
	limit    int // of a line, without its end
	block    []byte
	start    int  // block[:start] is handed out
	searched int  // block[start:searched] has no line end; start <= searched <= len(block)
	skipping bool // inside a line over the limit, until its end
}

const (
	blockBytes = 64 << 10
	minRead    = 4 << 10
)

// newFramer makes one for a stream of so many bytes; -1: it is not known how many.
func newFramer(limit int, length int64) *framer {
	f := &framer{limit: limit}
	if length >= 0 && length <= blockBytes {
		f.block = make([]byte, 0, length+minRead)
	}
	return f
}

// room is where the next bytes of the stream go; filled tells how many came.
func (f *framer) room() []byte {
	if cap(f.block)-len(f.block) < minRead {
		partial := f.block[f.start:]
		block := make([]byte, len(partial), max(blockBytes, 2*len(partial)))
		copy(block, partial)
		f.block, f.searched, f.start = block, f.searched-f.start, 0
	}
	return f.block[len(f.block):cap(f.block)]
}

func (f *framer) filled(n int) { f.block = f.block[:len(f.block)+n] }

// next is the next whole line without its end. A line over the limit is told once, as soon as it is known to be one,
// and its bytes are dropped.
func (f *framer) next() (line []byte, tooLong, ok bool) {
	for {
		i := bytes.IndexByte(f.block[f.searched:], '\n')
		if i < 0 {
			return f.unfinished()
		}
		end := f.searched + i
		line = f.block[f.start:end:end]
		f.start, f.searched = end+1, end+1
		if f.skipping {
			f.skipping = false
			continue
		}
		if len(line) > f.limit {
			return nil, true, true
		}
		return line, false, true
	}
}

func (f *framer) unfinished() (line []byte, tooLong, ok bool) {
	f.searched = len(f.block)
	tooLong = !f.skipping && f.searched-f.start > f.limit
	if tooLong {
		f.skipping = true
	}
	if f.skipping { // nothing of it is handed out: its place can be used again
		f.block = f.block[:f.start]
		f.searched = f.start
	}
	return nil, tooLong, tooLong
}

// rest is what follows the last line end, once the stream is over.
func (f *framer) rest() []byte {
	if f.skipping {
		return nil
	}
	return f.block[f.start:]
}
