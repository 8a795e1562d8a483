package store

import "encoding/binary"

// cold is the content of a task, decoded from its blob. The blob never changes; a change writes a new one. The
// encoding of the blob lives and dies with the process: the log and the snapshot are protobuf.
type cold struct {
	coldHead
	namespace string // namespace and id are "" if the record has the id inline
	id        string
	queue     uint32 // the queue's number
	target    uint32 // number of a shared target; 0: none, or in extra
	manner    uint32 // number of a shared manner; 0: none, or in extra
	delay     int64  // of the last call with a delay; NoDelay: no call had one
	extra     []byte // marshalled fsmpb.Extra: the parts that are not shared; may be empty
	asBytes   bool   // the payload came as payload_base64
	payload   []byte // to the end of the blob
}

// coldHead is the beginning of a blob.
type coldHead struct {
	created    int64
	occurrence uint64
	first      firstKey
}

const (
	coldHasID = 1 << iota
	coldHasQueue
	coldHasTarget
	coldHasDelay
	coldHasExtra
	coldAsBytes
	coldFarCreated
	coldHasManner
)

// The creation time takes five bytes: milliseconds since the beginning of 2020, which last for 34 years. A time
// outside of these years takes six bytes, in Unix milliseconds.
const (
	coldEpoch = 1_577_836_800_000
	coldYears = 1 << 40
)

// appendTo appends the encoding of c to b: flags, created, the occurrence with a bit for the first key, that key, the
// parts that the flags name, the payload.
func (c *cold) appendTo(b []byte) []byte {
	at := len(b)
	v := uint64(c.created - coldEpoch)
	far := v >= coldYears // also if created is before coldEpoch
	if far {
		v = uint64(c.created)
	}
	b = append(b, 0, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32))
	if far {
		b[at] |= coldFarCreated
		b = append(b, byte(v>>40))
	}
	b = c.first.appendTo(b, c.occurrence)
	if c.id != "" {
		b[at] |= coldHasID
		b = appendSized(appendSized(b, c.namespace), c.id)
	}
	if c.queue != 0 {
		b[at] |= coldHasQueue
		b = binary.AppendUvarint(b, uint64(c.queue))
	}
	if c.target != 0 {
		b[at] |= coldHasTarget
		b = binary.AppendUvarint(b, uint64(c.target))
	}
	if c.manner != 0 {
		b[at] |= coldHasManner
		b = binary.AppendUvarint(b, uint64(c.manner))
	}
	if c.delay != NoDelay {
		b[at] |= coldHasDelay
		b = binary.AppendUvarint(b, uint64(c.delay))
	}
	if len(c.extra) > 0 {
		b[at] |= coldHasExtra
		b = appendSized(b, c.extra)
	}
	if c.asBytes {
		b[at] |= coldAsBytes
	}
	return append(b, c.payload...)
}

func appendSized[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readCold decodes a blob. The extra and payload of the result alias the blob.
func readCold(b []byte) cold {
	flags := b[0]
	head, in := readHead(b)
	c := cold{coldHead: head, delay: NoDelay, asBytes: flags&coldAsBytes != 0}
	if flags&coldHasID != 0 {
		c.namespace, c.id = string(in.sized()), string(in.sized())
	}
	if flags&coldHasQueue != 0 {
		c.queue = uint32(in.uvarint())
	}
	if flags&coldHasTarget != 0 {
		c.target = uint32(in.uvarint())
	}
	if flags&coldHasManner != 0 {
		c.manner = uint32(in.uvarint())
	}
	if flags&coldHasDelay != 0 {
		c.delay = int64(in.uvarint())
	}
	if flags&coldHasExtra != 0 {
		c.extra = in.sized()
	}
	c.payload = in.rest
	return c
}

// readHead decodes the beginning of a blob and returns a reader of the rest. It allocates nothing.
func readHead(b []byte) (coldHead, coldReader) {
	h := coldHead{created: int64(b[1]) | int64(b[2])<<8 | int64(b[3])<<16 | int64(b[4])<<24 | int64(b[5])<<32}
	in := coldReader{b[6:]}
	if b[0]&coldFarCreated != 0 {
		h.created |= int64(b[6]) << 40
		in = coldReader{b[7:]}
	} else {
		h.created += coldEpoch
	}
	h.occurrence, h.first = readFirstKey(&in)
	return h, in
}

// occurrenceIn decodes only the occurrence of a blob.
func occurrenceIn(b []byte) uint64 {
	in := coldReader{b[6:]}
	if b[0]&coldFarCreated != 0 {
		in.rest = b[7:]
	}
	return in.uvarint() >> 1 // see readFirstKey
}

// coldIs reports whether the blob contains this id. It allocates nothing.
func coldIs(b []byte, namespace, id string) bool {
	if b[0]&coldHasID == 0 {
		return false
	}
	_, in := readHead(b)
	return string(in.sized()) == namespace && string(in.sized()) == id
}

// coldShared decodes only the numbers of the values that tasks share. It allocates nothing.
func coldShared(b []byte) (queue, target, manner uint32) {
	if b[0]&(coldHasQueue|coldHasTarget|coldHasManner) == 0 {
		return 0, 0, 0
	}
	_, in := readHead(b)
	if b[0]&coldHasID != 0 {
		in.sized()
		in.sized()
	}
	if b[0]&coldHasQueue != 0 {
		queue = uint32(in.uvarint())
	}
	if b[0]&coldHasTarget != 0 {
		target = uint32(in.uvarint())
	}
	if b[0]&coldHasManner != 0 {
		manner = uint32(in.uvarint())
	}
	return queue, target, manner
}

// coldQueue decodes only the queue's number. It allocates nothing.
func coldQueue(b []byte) uint32 {
	queue, _, _ := coldShared(b)
	return queue
}

// coldReader reads a blob that this process wrote. It panics or misreads if the blob is malformed.
type coldReader struct{ rest []byte }

func (r *coldReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.rest = r.rest[n:]
	return v
}

func (r *coldReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.rest = r.rest[n:]
	return v
}

func (r *coldReader) sized() []byte {
	n := r.uvarint()
	s := r.rest[:n:n]
	r.rest = r.rest[n:]
	return s
}
