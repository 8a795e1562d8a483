package stream

import "bytes"

// framer cuts a stream into lines. It holds little more than one line of the limit; what it hands out is never
// overwritten, so that payloads can go on pointing into it.
type framer struct {
	limit    int // of a line, without its end
	block    []byte
	start    int // block[:start] is handed out
	searched int // block[start:searched] has no line end; start <= searched <= len(block)
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

// next is the next whole line without its end. A line over the limit is told as soon as it is known to be one, whether
// its end has come or not; the framer must not be asked for more then.
func (f *framer) next() (line []byte, tooLong, ok bool) {
	i := bytes.IndexByte(f.block[f.searched:], '\n')
	if i < 0 {
		f.searched = len(f.block)
		return nil, f.searched-f.start > f.limit, false
	}
	end := f.searched + i
	line = f.block[f.start:end:end]
	f.start, f.searched = end+1, end+1
	return line, len(line) > f.limit, true
}

// rest is what follows the last line end, once the stream is over.
func (f *framer) rest() []byte { return f.block[f.start:] }
