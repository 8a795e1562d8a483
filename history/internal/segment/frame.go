package segment

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/belfryhq/belfry/history/historypb"
)

const (
	header      = "belfhis1"
	blockMagic  = "bfyB"
	endMagic    = "bfyE"
	frameHeader = 12
	trailerSize = 12
	maxHead     = 8 << 20
)

// frame returns the bytes of a block in a file, and the offset of the body in them.
func frame(b *historypb.Block, body []byte) ([]byte, int, error) {
	head, err := b.MarshalVT()
	if err != nil {
		return nil, 0, err
	}
	out := make([]byte, 0, frameHeader+len(head)+len(body))
	out = append(out, blockMagic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(head, castagnoli))
	out = append(out, head...)
	return append(out, body...), len(out), nil
}

// parseFrame returns the block whose frame begins at the offset, with a whole head and as many bytes as its body needs,
// and the offset behind it. It does not read the body.
func parseFrame(data []byte, at int) (*historypb.Block, int, bool) {
	rest := data[at:]
	if len(rest) < frameHeader || string(rest[:4]) != blockMagic {
		return nil, 0, false
	}
	length := int(binary.LittleEndian.Uint32(rest[4:]))
	if length > maxHead || length > len(rest)-frameHeader {
		return nil, 0, false
	}
	head := rest[frameHeader : frameHeader+length]
	sum := binary.LittleEndian.Uint32(rest[8:])
	b := &historypb.Block{}
	if crc32.Checksum(head, castagnoli) != sum || b.UnmarshalVTUnsafe(bytes.Clone(head)) != nil {
		return nil, 0, false
	}
	body := at + frameHeader + length
	if b.Body > maxBlock || int(b.Body) > len(data)-body {
		return nil, 0, false
	}
	b.Offset = int64(body)
	return b, body + int(b.Body), true
}

// nextFrame returns the offset of the first whole frame at or after the offset.
func nextFrame(data []byte, at int) (int, bool) {
	for at < len(data) {
		i := bytes.Index(data[at:], []byte(blockMagic))
		if i < 0 {
			return 0, false
		}
		at += i
		if _, _, ok := parseFrame(data, at); ok {
			return at, true
		}
		at++
	}
	return 0, false
}
