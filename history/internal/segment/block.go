package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/belfryhq/belfry/history/historypb"
)

// maxBlock is the limit on the bytes of a block, before and after decompression.
const maxBlock = 16 << 20

// window is how far back the encoder looks for repetitions: all of a usual block. The encoder keeps twice the window in
// memory.
const window = 128 << 10

// ErrCorrupt is returned for bytes that a Writer did not write.
var ErrCorrupt = errors.New("segment: corrupt")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codec compresses and decompresses bodies. Its parts are safe for concurrent use.
type codec struct {
	*zstd.Encoder
	*zstd.Decoder
}

// shared is the codec of the process. It is complete from the start: channels that it made later, in a bubble of
// testing/synctest, would be of no use outside.
var shared = newCodec()

func newCodec() codec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window))
	if err != nil {
		panic(err) // the options are constants
	}
	encoder.EncodeAll(nil, nil) // the first call makes the rest of the encoder
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		panic(err)
	}
	return codec{encoder, decoder}
}

// pack returns the block of a batch and its body, in the memory of buf if there is room. The offset is not set.
func pack(batch *Batch, buf []byte) (*historypb.Block, []byte, error) {
	if len(batch.raw) > maxBlock {
		return nil, nil, fmt.Errorf("segment: events of %d bytes exceed the limit of a block, %d", len(batch.raw), maxBlock)
	}
	keys := slices.Clone(batch.keys) // a view reads the original
	slices.Sort(keys)
	body := shared.EncodeAll(batch.raw, buf[:0])
	return &historypb.Block{
		First: batch.first, Last: batch.last, Count: uint32(batch.count),
		Raw: uint32(len(batch.raw)), Body: uint32(len(body)), Sum: crc32.Checksum(body, castagnoli),
		Filter: newFilter(slices.Compact(keys)),
	}, body, nil
}

// Read returns the events of a block. It returns an error that is ErrCorrupt if the bytes in the file are damaged.
func Read(r io.ReaderAt, b *historypb.Block) ([]*historypb.Event, error) {
	if b.Count == 0 {
		return nil, nil
	}
	if b.Body > maxBlock || b.Raw > maxBlock {
		return nil, fmt.Errorf("%w: a block of %d bytes, %d decompressed", ErrCorrupt, b.Body, b.Raw)
	}
	body := make([]byte, b.Body)
	if _, err := r.ReadAt(body, b.Offset); err != nil {
		return nil, readError("block", b.Offset, err)
	}
	return unpack(b, body)
}

func readError(part string, at int64, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file ends in the %s at byte %d", ErrCorrupt, part, at)
	}
	return err
}

func unpack(b *historypb.Block, body []byte) ([]*historypb.Event, error) {
	if sum := crc32.Checksum(body, castagnoli); sum != b.Sum {
		return nil, fmt.Errorf("%w: the block at byte %d has checksum %08x instead of %08x", ErrCorrupt, b.Offset, sum, b.Sum)
	}
	raw, err := shared.DecodeAll(body, make([]byte, 0, b.Raw))
	if err != nil {
		return nil, fmt.Errorf("%w: the block at byte %d: %w", ErrCorrupt, b.Offset, err)
	}
	events, err := unmarshal(raw)
	if err == nil && len(events) != int(b.Count) {
		err = fmt.Errorf("%w: the block at byte %d has %d events instead of %d", ErrCorrupt, b.Offset, len(events), b.Count)
	}
	return events, err
}

// unmarshal returns the events in raw. Their strings share its memory.
func unmarshal(raw []byte) ([]*historypb.Event, error) {
	var events []*historypb.Event
	for len(raw) > 0 {
		size, n := binary.Uvarint(raw)
		if n <= 0 || size > uint64(len(raw)-n) {
			return nil, fmt.Errorf("%w: the length of event %d", ErrCorrupt, len(events))
		}
		e := &historypb.Event{}
		if err := e.UnmarshalVTUnsafe(raw[n : n+int(size)]); err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", ErrCorrupt, len(events), err)
		}
		if len(events) > 0 {
			takeSame(e, events[len(events)-1])
		}
		events, raw = append(events, e), raw[n+int(size):]
	}
	return events, nil
}
