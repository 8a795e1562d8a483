package stranger

import "google.golang.org/protobuf/encoding/protowire"

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
