package witness

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/raftgroup/durable"
)

// The file has two slots of the same size, a row of sectors each. A write goes to the slot with the older table:
//
//	0   4 bytes  CRC-32C of the rest of the sector
//	4   8 bytes  number of the write; its parity is the slot
//	12           a part of: magic, 4 bytes for the size of a slot, 4 for that of the table, a clusterpb.SeenNodes
//
// Disks write a sector whole. So a loss of power during a write leaves sectors of two writes in a slot, each of them
// sound, and the table in the other slot holds. A sector that is not sound is damage. All numbers are big-endian.
const (
	sectorBytes = 512
	sectorHead  = 12
	magic       = "belfryw\x02" // its last byte is the version of the format
	headBytes   = len(magic) + 8
	leastSlot   = 32 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged means that the file has other content than the node wrote.
var errDamaged = errors.New("it is damaged")

// read reads the file of this node's table. It returns nil if the file is missing. With errDamaged, it returns a table
// if one slot is sound.
func read(path, owner string) (*clusterpb.SeenNodes, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	nodes, err := parse(data)
	switch {
	case nodes != nil && nodes.Owner != owner:
		return nil, fmt.Errorf("%s is of node %s, and node.json says that the data folder is of node %s: they do not "+
			"belong together", path, nodes.Owner, owner)
	case err != nil:
		return nodes, fmt.Errorf("%s, the record of other nodes' positions: %w", path, err)
	}
	return nodes, nil
}

// Inspect returns the positions that a stopped node has recorded of its own replicas, by group. If none is set, the
// table may be missing, since no replica has lived in the folder.
func Inspect(dir, node string, none bool) (map[uint32]Position, error) {
	path := filepath.Join(dir, FileName)
	nodes, err := read(path, node)
	if err == nil && nodes == nil && !none {
		err = errMissing(path)
	}
	if err != nil {
		return nil, err
	}
	t := &Table{cfg: Config{Node: node}, runs: make(map[string]Run), kept: make(map[uint32]Position)}
	t.fill(nodes)
	return t.kept, nil
}

// Observed returns the observations of other nodes that a stopped node has recorded.
func Observed(dir, node string) ([]*clusterpb.SeenNode, error) {
	nodes, err := read(filepath.Join(dir, FileName), node)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes.GetNodes(), func(n *clusterpb.SeenNode) bool { return n.Node == node }), nil
}

func errMissing(path string) error {
	return fmt.Errorf("%s, the record of other nodes' positions, is missing: part of this data folder is lost", path)
}

// parse returns the newest table in the content of a file. With errDamaged, it returns one if one slot is sound.
func parse(data []byte) (newest *clusterpb.SeenNodes, err error) {
	switch {
	case len(data) == 0:
		return nil, errors.New("it is empty: part of this data folder is lost")
	case len(data)%(2*sectorBytes) != 0:
		return nil, errDamaged
	}
	last := uint64(0)
	for slot := range slices.Chunk(data, len(data)/2) {
		nodes, number, damage := parseSlot(slot)
		if err = cmp.Or(err, damage); number > last {
			newest, last = nodes, number
		}
	}
	if newest == nil {
		return nil, errDamaged
	}
	return newest, err
}

// parseSlot returns the table in a slot and the number of its write; nil if no write to the slot is complete.
func parseSlot(slot []byte) (*clusterpb.SeenNodes, uint64, error) {
	var text []byte // the parts in the first sectors, as far as they are of one write
	number, goesOn := binary.BigEndian.Uint64(slot[4:]), true
	for sector := range slices.Chunk(slot, sectorBytes) {
		sum, rest := binary.BigEndian.Uint32(sector), sector[4:]
		if crc32.Checksum(rest, castagnoli) != sum && len(bytes.Trim(sector, "\x00")) > 0 {
			return nil, 0, errDamaged
		}
		if goesOn = goesOn && binary.BigEndian.Uint64(rest) == number; goesOn {
			text = append(text, sector[sectorHead:]...)
		}
	}
	if number == 0 {
		return nil, 0, nil
	}
	head, body := text[:headBytes], text[headBytes:]
	if string(head[:len(magic)]) != magic || int(binary.BigEndian.Uint32(head[len(magic):])) != len(slot) {
		return nil, 0, errDamaged
	}
	size := int(binary.BigEndian.Uint32(head[len(magic)+4:]))
	if size > len(body) {
		return nil, 0, nil
	}
	nodes := &clusterpb.SeenNodes{}
	if err := proto.Unmarshal(body[:size], nodes); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nodes, number, nil
}

// seal returns the sectors of a write to a slot of so many bytes.
func seal(number uint64, slot int, body []byte) (data []byte) {
	text := append(make([]byte, 0, headBytes+len(body)), magic...)
	text = binary.BigEndian.AppendUint32(text, uint32(slot))
	text = append(binary.BigEndian.AppendUint32(text, uint32(len(body))), body...)
	for part := range slices.Chunk(text, sectorBytes-sectorHead) {
		sector := make([]byte, sectorBytes)
		binary.BigEndian.PutUint64(sector[4:], number)
		copy(sector[sectorHead:], part)
		binary.BigEndian.PutUint32(sector, crc32.Checksum(sector[4:], castagnoli))
		data = append(data, sector...)
	}
	return data
}

// firstNumber is the number of the write that makes a file. Each start of a node makes one, so that no number comes
// twice in a file.
const firstNumber = 2

// newFile returns the content of a new file, whose slots have room for a table of twice the size.
func newFile(body []byte) []byte {
	slot := max(leastSlot, (2*len(body)/sectorBytes+1)*sectorBytes)
	data := make([]byte, 2*slot)
	copy(data, seal(firstNumber, slot, body))
	return data
}

// write writes the present table over the older one in the file, or into a new file if that has no room.
func (t *Table) write() error {
	body, err := proto.Marshal(t.snapshot())
	if err != nil {
		return err
	}
	if t.file != nil {
		if data := seal(t.number+1, t.slot, body); len(data) <= t.slot {
			t.number++
			if _, err := t.file.WriteAt(data, int64(t.number%2)*int64(t.slot)); err != nil {
				return err
			}
			return errors.Join(durable.SyncData(t.file), t.checkPlace())
		}
		_ = t.file.Close() // its bytes are durable
		t.file = nil
	}
	data := newFile(body)
	t.number, t.slot = firstNumber, len(data)/2
	if err := durable.Replace(t.path, data, nil); err != nil {
		return err
	}
	t.file, err = durable.Open(t.path, os.O_WRONLY, 0)
	return err
}

// checkPlace returns an error if the path no longer leads to the open file. Another program has then removed, moved or
// replaced the file or its folder: the next start of the node would not find what this table has promised to keep.
func (t *Table) checkPlace() error {
	named, err := os.Stat(t.path)
	if err != nil {
		return err
	}
	written, err := t.file.Stat()
	if err == nil && !os.SameFile(named, written) {
		err = fmt.Errorf("%s was replaced while the node ran", t.path)
	}
	return err
}

// snapshot returns the whole table, sorted by node and group.
func (t *Table) snapshot() *clusterpb.SeenNodes {
	nodes := make(map[string]*clusterpb.SeenNode)
	of := func(id string) *clusterpb.SeenNode {
		if nodes[id] == nil {
			nodes[id] = &clusterpb.SeenNode{Node: id}
		}
		return nodes[id]
	}
	for k, r := range *t.rows.Load() {
		r.mu.Lock()
		at := r.at
		r.mu.Unlock()
		n := of(k.node)
		position := at.proto(k.group)
		position.Joined = r.joined
		n.Positions = append(n.Positions, position)
	}
	t.mu.Lock()
	for id, run := range t.runs {
		of(id).Run = run.proto()
	}
	for group, at := range t.kept {
		n := of(t.cfg.Node)
		n.Positions = append(n.Positions, at.proto(group))
	}
	t.mu.Unlock()
	all := &clusterpb.SeenNodes{Owner: t.cfg.Node}
	for _, n := range nodes {
		slices.SortFunc(n.Positions, func(a, b *clusterpb.SeenPosition) int { return cmp.Compare(a.Group, b.Group) })
		all.Nodes = append(all.Nodes, n)
	}
	slices.SortFunc(all.Nodes, func(a, b *clusterpb.SeenNode) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

func (p Position) proto(group uint32) *clusterpb.SeenPosition {
	return &clusterpb.SeenPosition{Group: group, Term: p.Term, Index: p.Index, EntryTerm: p.EntryTerm}
}

func runOf(r *clusterpb.NodeRun) Run {
	return Run{Boot: r.GetBoot(), Nonce: r.GetNonce(), Addr: r.GetPeerAddr()}
}

func (r Run) proto() *clusterpb.NodeRun {
	return &clusterpb.NodeRun{Boot: r.Boot, Nonce: r.Nonce, PeerAddr: r.Addr}
}
