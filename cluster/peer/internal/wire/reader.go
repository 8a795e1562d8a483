package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// readHead passes the next frame's head to parse, which must not keep any part of it. A head has at most most bytes.
// The reader's buffer must hold these and the length before them.
func readHead(r *bufio.Reader, most int, parse func(head []byte) error) error {
	length, err := r.Peek(lengthBytes)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length)
	if n > uint32(most) {
		return fmt.Errorf("%w: a head of %d bytes; at most %d", errMalformed, n, most)
	}
	frame, err := r.Peek(lengthBytes + int(n))
	if err != nil {
		return err
	}
	if err := parse(frame[lengthBytes:]); err != nil {
		return err
	}
	_, err = r.Discard(len(frame))
	return err
}

// readEntries reads the data and extensions of a request's entries.
func readEntries(r *bufio.Reader, req request) error {
	for i, e := range req.rpc.Entries {
		var err error
		if e.Data, err = ReadData(r, req.sizes[i].data); err != nil {
			return err
		}
		if e.Extensions, err = ReadData(r, req.sizes[i].extensions); err != nil {
			return err
		}
	}
	return nil
}

// trusted is the number of bytes that ReadData allocates for an announced length. It allocates more only as bytes
// arrive.
const trusted = 1 << 20

// ReadData reads n bytes into memory of their own.
func ReadData(r *bufio.Reader, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	data := make([]byte, min(n, trusted))
	for at := 0; ; {
		if _, err := io.ReadFull(r, data[at:]); err != nil {
			return nil, err
		}
		if at = len(data); at == n {
			return data, nil
		}
		data = append(make([]byte, 0, min(n, 2*at)), data...)
		data = data[:cap(data)]
	}
}

// requestReader reads the requests of a stream.
type requestReader struct {
	*bufio.Reader
	traffic Traffic
	from    []byte // sender's id; all requests share this memory
	sizes   []size // kept only to reuse its memory
}

func newRequestReader(r io.Reader, h Header) *requestReader {
	most := maxHead
	if h.Traffic == beats {
		most = maxBeat
	}
	return &requestReader{Reader: bufio.NewReaderSize(r, lengthBytes+most), traffic: h.Traffic, from: []byte(h.From)}
}

// next reads a request's head. The caller must then read or skip the data of its entries.
func (r *requestReader) next() (request, error) {
	var req request
	err := readHead(r.Reader, r.Size()-lengthBytes, func(head []byte) error {
		var err error
		req, err = parseRequest(head, r.from, r.sizes)
		return err
	})
	r.sizes = req.sizes
	if err == nil && r.traffic == beats && len(req.rpc.Entries) > 0 {
		err = fmt.Errorf("%w: entries among heartbeats", errMalformed)
	}
	return req, err
}

func (r *requestReader) skip(req request) error {
	_, err := r.Discard(req.data)
	return err
}
