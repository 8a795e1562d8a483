package stream

import "bytes"

// framer splits a stream into lines. It holds little more than one line of the limit. It never overwrites returned
// lines, so that payloads may alias them.
type framer struct {
	limit    int // of a line, without its end
	block    []byte
	start    int  // block[:start] was returned
	searched int  // block[start:searched] has no line end; start <= searched <= len(block)
	skipping bool // the line that begins at start is the rest of one over the limit, and is dropped
	skipped  int  // bytes of this line that were dropped
}

const (
	blockBytes = 64 << 10
	minRead    = 4 << 10
)

// newFramer makes a framer for a stream of length bytes; -1 means an unknown length.
func newFramer(limit int, length int64) *framer {
	f := &framer{limit: limit}
	if length >= 0 && length <= blockBytes {
		f.block = make([]byte, 0, length+minRead)
	}
	return f
}

// room returns the buffer for the next bytes of the stream. The caller then passes their number to filled.
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

// next returns the next whole line without its end. A line over the limit is dropped: tooLong is set once for it, as
// soon as it is over the limit, whether its end has come or not.
func (f *framer) next() (line []byte, tooLong, ok bool) {
	for {
		i := bytes.IndexByte(f.block[f.searched:], '\n')
		if i < 0 {
			f.searched = len(f.block)
			long := f.searched-f.start > f.limit && !f.skipping
			if f.skipping = f.skipping || long; f.skipping {
				f.skipped += f.searched - f.start
				f.start = f.searched
			}
			return nil, long, false
		}
		end := f.searched + i
		line = f.block[f.start:end:end]
		f.start, f.searched = end+1, end+1
		if !f.skipping {
			return line, len(line) > f.limit, true
		}
		f.skipping, f.skipped = false, 0
	}
}

// endless reports whether a line is so long that its end is not awaited.
func (f *framer) endless() bool { return f.skipped > 16*f.limit }

// rest returns the bytes after the last line end, once the stream is over.
func (f *framer) rest() []byte { return f.block[f.start:] }
