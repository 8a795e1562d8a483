package wire

import "net"

const (
	byReference = 16 << 10 // bytes from which on data is not copied into the buffer; smaller copies cost hardly anything
	keptBuffer  = 64 << 10 // size in bytes beyond which a buffer is not kept for the next batch
)

// batch is the content of one write: its own bytes, with the data of entries in between.
type batch struct {
	buf        []byte
	cuts       []cut
	referenced int         // bytes of data in all cuts
	parts      net.Buffers // kept only to reuse its memory
}

// cut is data that is written before buf[at:].
type cut struct {
	at   int
	data []byte
}

// add appends data, which must not change until reset.
func (b *batch) add(data []byte) {
	if len(data) < byReference {
		b.buf = append(b.buf, data...)
		return
	}
	b.cuts = append(b.cuts, cut{at: len(b.buf), data: data})
	b.referenced += len(data)
}

func (b *batch) bytes() int { return len(b.buf) + b.referenced }

func (b *batch) writeTo(conn net.Conn) error {
	if len(b.cuts) == 0 {
		_, err := conn.Write(b.buf)
		return err
	}
	parts, from := b.parts[:0], 0
	for _, c := range b.cuts {
		if c.at > from {
			parts = append(parts, b.buf[from:c.at])
		}
		parts = append(parts, c.data)
		from = c.at
	}
	if from < len(b.buf) {
		parts = append(parts, b.buf[from:])
	}
	b.parts = parts
	_, err := parts.WriteTo(conn)
	return err
}

// reset empties the batch and drops its references to data.
func (b *batch) reset() {
	if b.buf = b.buf[:0]; cap(b.buf) > keptBuffer {
		b.buf = nil
	}
	clear(b.cuts)
	clear(b.parts)
	b.cuts, b.parts, b.referenced = b.cuts[:0], b.parts[:0], 0
}
