package stranger

import (
	"bytes"
	"encoding/binary"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"google.golang.org/protobuf/encoding/protowire"
)

// streamByte begins a gossip stream on a peer port. label begins every packet and stream of the mesh: a type byte, the
// length of the label, and the label.
const (
	streamByte = 0x02
	label      = "\xf4\x08belfry-1"
)

// kind is memberlist's type of a message.
type kind byte

const (
	suspectMsg  kind = 3
	aliveMsg    kind = 4
	deadMsg     kind = 5
	pushPullMsg kind = 6
	compoundMsg kind = 7
	compressMsg kind = 9
)

// accusation is the body of a suspect and of a dead message.
type accusation struct {
	Incarnation uint32
	Node        string
	From        string
}

// alive is the body of an alive message.
type alive struct {
	Incarnation uint32
	Node        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Vsn         []uint8
}

// header begins a push-pull, the exchange of whole states: the number of states and of bytes of user data that follow.
type header struct {
	Nodes        int
	UserStateLen int
	Join         bool
}

// state is a member in a push-pull. State 0 is alive, 2 is dead.
type state struct {
	Name        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Incarnation uint32
	State       int
	Vsn         []uint8
}

const (
	isAlive = 0
	isDead  = 2
)

// compressed is the body of a compress message: a message in LZW.
type compressed struct {
	Algo uint8
	Buf  []byte
}

// versions are the versions of today's members, of the protocol and of the delegate: least, most, current.
var versions = []uint8{1, 5, 2, 0, 0, 0}

// encode encodes a message of kind k.
func encode(k kind, bodies ...any) ([]byte, error) {
	out := bytes.NewBuffer([]byte{byte(k)})
	enc := codec.NewEncoder(out, &codec.MsgpackHandle{})
	for _, body := range bodies {
		if err := enc.Encode(body); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// packet puts several messages into one packet.
func packet(messages ...[]byte) []byte {
	out := []byte(label)
	if len(messages) == 1 {
		return append(out, messages[0]...)
	}
	out = append(out, byte(compoundMsg), byte(len(messages)))
	for _, m := range messages {
		out = binary.BigEndian.AppendUint16(out, uint16(len(m)))
	}
	return append(out, bytes.Join(messages, nil)...)
}

// meta is a node's description of itself: the fields of GossipMeta that lies change.
type meta struct {
	id      string
	boot    uint64
	cluster string
	name    string
	addr    string
	rest    []byte // other fields, unchanged
}

// The numbers of the fields.
const (
	idField protowire.Number = iota + 1
	bootField
	clusterField
	nameField
	addrField
)

func (m meta) encode() []byte {
	var b []byte
	for _, f := range []struct {
		n    protowire.Number
		text string
	}{{idField, m.id}, {clusterField, m.cluster}, {nameField, m.name}, {addrField, m.addr}} {
		b = protowire.AppendString(protowire.AppendTag(b, f.n, protowire.BytesType), f.text)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, bootField, protowire.VarintType), m.boot)
	return append(b, m.rest...)
}

// parseMeta parses a member's description of itself. It returns false if the description is malformed.
func parseMeta(b []byte) (m meta, ok bool) {
	for len(b) > 0 {
		n, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return meta{}, false
		}
		size := protowire.ConsumeFieldValue(n, kind, b[tag:])
		if size < 0 {
			return meta{}, false
		}
		if !m.take(n, kind, b[tag:]) {
			m.rest = append(m.rest, b[:tag+size]...)
		}
		b = b[tag+size:]
	}
	return m, m.id != ""
}

// take sets one of the known fields. It returns false for any other field.
func (m *meta) take(n protowire.Number, kind protowire.Type, value []byte) bool {
	if kind == protowire.VarintType && n == bootField {
		m.boot, _ = protowire.ConsumeVarint(value)
		return true
	}
	texts := map[protowire.Number]*string{idField: &m.id, clusterField: &m.cluster, nameField: &m.name, addrField: &m.addr}
	text := texts[n]
	if kind != protowire.BytesType || text == nil {
		return false
	}
	bytes, _ := protowire.ConsumeBytes(value)
	*text = string(bytes)
	return true
}
