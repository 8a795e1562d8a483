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

// magic begins the file. Its last byte is the version of the format. The CRC-32C of the rest follows, in big endian,
// and then a clusterpb.SeenNodes.
const magic = "belfryw\x01"

const headerBytes = len(magic) + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged means that the file has other content than the node wrote.
var errDamaged = errors.New("it is damaged")

// read reads the file of this node's table; found is false if the file is missing.
func read(path, owner string) (_ *clusterpb.SeenNodes, found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	nodes, err := parse(data)
	if err != nil {
		return nil, false, fmt.Errorf("%s, the record of other nodes' positions: %w", path, err)
	}
	if nodes.Owner != owner {
		return nil, false, fmt.Errorf("%s is of node %s, and node.json says that the data folder is of node %s: they do not "+
			"belong together", path, nodes.Owner, owner)
	}
	return nodes, true, nil
}

// Inspect returns the positions that a stopped node has recorded of its own replicas, by group. If none is set, the
// table may be missing, since no replica has lived in the folder.
func Inspect(dir, node string, none bool) (map[uint32]Position, error) {
	path := filepath.Join(dir, FileName)
	nodes, found, err := read(path, node)
	if err == nil && !found && !none {
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
	nodes, _, err := read(filepath.Join(dir, FileName), node)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes.GetNodes(), func(n *clusterpb.SeenNode) bool { return n.Node == node }), nil
}

func errMissing(path string) error {
	return fmt.Errorf("%s, the record of other nodes' positions, is missing: part of this data folder is lost", path)
}

func parse(data []byte) (*clusterpb.SeenNodes, error) {
	if len(data) == 0 {
		return nil, errors.New("it is empty: part of this data folder is lost")
	}
	body, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(data) < headerBytes {
		return nil, errDamaged
	}
	sum, body := binary.BigEndian.Uint32(body), body[4:]
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errDamaged
	}
	nodes := &clusterpb.SeenNodes{}
	if err := proto.Unmarshal(body, nodes); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nodes, nil
}

// write replaces the file with the present table.
func (t *Table) write() error {
	body, err := proto.Marshal(t.snapshot())
	if err != nil {
		return err
	}
	return durable.Replace(t.path, seal(body), nil)
}

// seal returns the content behind its header.
func seal(body []byte) []byte {
	data := append(make([]byte, 0, headerBytes+len(body)), magic...)
	data = binary.BigEndian.AppendUint32(data, crc32.Checksum(body, castagnoli))
	return append(data, body...)
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
