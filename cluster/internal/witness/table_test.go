package witness

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

func openTable(t *testing.T, dir string, isNew bool) *Table {
	t.Helper()
	table, err := Open(Config{Dir: dir, Node: "self", New: isNew, Fatal: func(err error) { t.Error(err) }})
	assert.NoError(t, err)
	t.Cleanup(func() { _ = table.Close() })
	return table
}

// onDisk returns the record of a node that another process would read.
func onDisk(t *testing.T, dir, node string) string {
	t.Helper()
	nodes, err := read(filepath.Join(dir, FileName), "self")
	assert.NoError(t, err)
	return about(nodes, node)
}

// about returns the record of a node in a table.
func about(nodes *clusterpb.SeenNodes, node string) string {
	for _, n := range nodes.GetNodes() {
		if n.Node == node {
			return text(n)
		}
	}
	return ""
}

func text(n *clusterpb.SeenNode) string {
	var b strings.Builder
	if n.Run != nil {
		b.WriteString(n.Run.PeerAddr + " ")
	}
	for _, p := range n.Positions {
		b.WriteString(groupName(p.Group) + ": " + Position{Term: p.Term, Index: p.Index}.String() + "; ")
	}
	return strings.TrimSpace(b.String())
}

// The greatest position of each node and group stays, and is on disk soon, without a write for each position.
func TestTableKeepsTheGreatest(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		table := openTable(t, dir, true)
		for _, p := range []Position{{2, 5, 1}, {1, 9, 1}, {2, 4, 1}, {3, 0, 0}, {2, 100, 2}} {
			table.Saw("b", 1, p.Term, p.Index, p.EntryTerm)
		}
		table.Saw("b", 0, 1, 1, 1)
		table.Saw("self", 0, 9, 9, 9)
		assert.Equal(t, onDisk(t, dir, "b"), "", "written at once")
		time.Sleep(writeEvery)
		synctest.Wait()
		got, want := onDisk(t, dir, "b"), "the control group: term 1, index 1; shard 1: term 3, index 0;"
		assert.Equal(t, got, want, "on disk")
		assert.Equal(t, onDisk(t, dir, "self"), "", "of itself")
		table.Saw("b", 1, 3, 7, 2)
		assert.NoError(t, table.Close())
		again := openTable(t, dir, false)
		if got := text(again.Seen("b")); !strings.HasSuffix(got, "shard 1: term 3, index 7;") {
			t.Errorf("read again: %q", got)
		}
		assert.Equal(t, text(again.Seen("c")), "", "of a stranger")
	})
}

// The table keeps the greatest term and the greatest applied index of this node's replicas. A restarted replica begins
// with lower values.
func TestOwnPositions(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		table := openTable(t, dir, true)
		at := Position{3, 70, 0}
		var mu sync.Mutex
		table.Follow(4, func() (term, index uint64) { mu.Lock(); defer mu.Unlock(); return at.Term, at.Index })
		time.Sleep(writeEvery)
		synctest.Wait()
		mu.Lock()
		at = Position{4, 60, 0}
		mu.Unlock()
		assert.NoError(t, table.Close())
		assert.Equal(t, openTable(t, dir, false).Kept(4), Position{4, 70, 0}, "kept")
	})
}

// A claim is durable when it is answered, and the newest run stays.
func TestClaims(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir, true)
	first, second, copied := Run{4, 11, "a:1"}, Run{5, 12, "a:2"}, Run{5, 13, "a:3"}
	for _, c := range []struct{ claim, newest Run }{
		{first, first}, {second, second}, {first, second}, {copied, second}, {second, second},
	} {
		got, err := table.Claim("b", c.claim)
		if err != nil || got != c.newest {
			t.Errorf("%+v claimed: %+v, %v", c.claim, got, err)
		}
		if got := onDisk(t, dir, "b"); got != c.newest.Addr {
			t.Errorf("%+v claimed: %q is on disk", c.claim, got)
		}
	}
	if !copied.outdates(second) || !second.outdates(first) || first.outdates(second) || second.outdates(second) ||
		(Run{}).outdates(first) {
		t.Error("runs are compared wrongly")
	}
}

// TestTableIsNotReplacedIfItIsLost checks that a table that is missing, empty or another node's keeps the node down, and
// that a damaged one is set aside: the node begins with the table in the other slot, or with none.
func TestTableIsNotReplacedIfItIsLost(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir, true)
	table.Saw("b", 1, 2, 3, 2)
	assert.NoError(t, table.Close())
	path := filepath.Join(dir, FileName)
	whole, err := os.ReadFile(path)
	assert.NoError(t, err)
	foreign, err := proto.Marshal(&clusterpb.SeenNodes{Owner: "other"})
	assert.NoError(t, err)
	write := func(data []byte) {
		t.Helper()
		assert.NoError(t, os.WriteFile(path, data, 0o600))
	}
	for name, data := range map[string][]byte{"empty": {}, "foreign": newFile(foreign)} {
		write(data)
		_, err := Open(Config{Dir: dir, Node: "self"})
		assert.Error(t, err, "%s: opened", name)
	}
	const last = "shard 1: term 2, index 3;"
	for _, slot := range []int{0, len(whole) / 2} { // of the empty table, and of the last one
		for i := slot; i < slot+sectorBytes; i += 29 {
			flipped := append([]byte(nil), whole...)
			flipped[i] ^= 0x10
			for _, data := range [][]byte{flipped, whole[:max(i, 1)]} {
				want := ""
				if len(data) == len(whole) && slot == 0 {
					want = last
				}
				write(data)
				assert.NoError(t, os.RemoveAll(path+".damaged"))
				table, err := Open(Config{Dir: dir, Node: "self"})
				assert.NoError(t, err, "damaged at %d", i)
				assert.Equal(t, text(table.Seen("b")), want, "damaged at %d: it has seen", i)
				assert.NoError(t, table.Close())
				if aside, err := os.ReadFile(path + ".damaged"); err != nil || !bytes.Equal(aside, data) {
					t.Errorf("damaged at %d: %d bytes are set aside, %v", i, len(aside), err)
				}
			}
		}
	}
	assert.NoError(t, os.Remove(path))
	if _, err := Open(Config{Dir: dir, Node: "self"}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("lost: %v", err)
	}
}

// TestEachFlippedByteIsNoticed flips each byte of a file, of sectors that were never written too.
func TestEachFlippedByteIsNoticed(t *testing.T) {
	const slot = 8 * sectorBytes
	file := make([]byte, 2*slot)
	copy(file, seal(firstNumber, slot, tableOf(t, 40)))
	copy(file[slot:], seal(firstNumber+1, slot, tableOf(t, 20)))
	_, err := parse(file)
	assert.NoError(t, err)
	for i := range file {
		file[i] ^= 0x40
		if got, err := parse(file); !errors.Is(err, errDamaged) ||
			got != nil && !slices.Contains([]int{20, 40}, len(got.Nodes)) {
			t.Fatalf("flipped at %d: a table of %d nodes, %v", i, len(got.GetNodes()), err)
		}
		file[i] ^= 0x40
	}
}

// tableOf returns a table of a number of nodes.
func tableOf(t *testing.T, nodes int) []byte {
	t.Helper()
	table := &clusterpb.SeenNodes{Owner: "self"}
	for i := range nodes {
		table.Nodes = append(table.Nodes, &clusterpb.SeenNode{
			Node: fmt.Sprint("node-", i), Run: &clusterpb.NodeRun{Boot: uint64(nodes), Nonce: rand.Uint64()},
		})
	}
	body, err := proto.Marshal(table)
	assert.NoError(t, err)
	return body
}

// TestPowerLoss ends each of many writes with a loss of power, after which the disk holds any of the write's sectors, or
// the write up to any byte. The last table whose write was complete is read, or the table of the write.
func TestPowerLoss(t *testing.T) {
	const slot = 8 * sectorBytes
	random := rand.New(rand.NewPCG(1, 2))
	file, torn, complete := make([]byte, 2*slot), 0, 1 // nodes of the last complete table
	copy(file, seal(firstNumber, slot, tableOf(t, complete)))
	for number := uint64(firstNumber + 1); number < 30; number++ {
		nodes := 2 + random.IntN(80)
		write := seal(number, slot, tableOf(t, nodes))
		before := bytes.Clone(file[slot*int(number%2):][:slot])
		target := file[slot*int(number%2):][:slot]
		judge := func(how string, sectors bool) {
			t.Helper()
			got, err := parse(file)
			if n := len(got.GetNodes()); n != complete && n != nodes || sectors && err != nil {
				t.Fatalf("write %d of %d nodes, %s: a table of %d nodes, not %d; %v", number, nodes, how, n, complete, err)
			}
			if len(got.GetNodes()) == complete {
				torn++
			}
		}
		for range 20 {
			copy(target, before)
			for at := 0; at < len(write); at += sectorBytes {
				if random.IntN(2) == 0 {
					copy(target[at:], write[at:at+sectorBytes])
				}
			}
			judge("some sectors", true)
		}
		for cut := 0; cut < len(write); cut += 1 + random.IntN(4) {
			copy(target, before)
			copy(target, write[:cut])
			judge(fmt.Sprintf("%d bytes", cut), cut%sectorBytes == 0)
		}
		copy(target, before)
		copy(target, write)
		complete = nodes
		judge("complete", true)
	}
	if torn < 1000 {
		t.Errorf("only %d writes were lost", torn)
	}
}

// TestGrownTable checks that a table that has outgrown its file gets a larger one.
func TestGrownTable(t *testing.T) {
	dir := t.TempDir()
	table := openTable(t, dir, true)
	for i := range maxNodes {
		if i < maxNodes-2 {
			table.mu.Lock()
			table.runs[fmt.Sprint("node-", i)] = Run{Boot: 1, Addr: strings.Repeat("a", 200)}
			table.mu.Unlock()
			continue
		}
		_, err := table.Claim(fmt.Sprint("node-", i), Run{Boot: 1})
		assert.NoError(t, err)
	}
	nodes, err := read(filepath.Join(dir, FileName), "self")
	if err != nil || len(nodes.Nodes) != maxNodes {
		t.Errorf("%d nodes are on disk, %v", len(nodes.GetNodes()), err)
	}
}

// A table that cannot be written ends the process: other nodes would go on to rely on it.
func TestFailedWriteIsFatal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	assert.NoError(t, os.Mkdir(dir, 0o700))
	fatal := make(chan error, 1)
	table, err := Open(Config{Dir: dir, Node: "self", New: true, Fatal: func(err error) { fatal <- err }})
	assert.NoError(t, err)
	table.writing.Lock()
	_ = table.file.Close() // so that writes fail
	table.writing.Unlock()
	table.Saw("b", 1, 2, 3, 2)
	assert.ErrorIs(t, <-fatal, os.ErrClosed, "fatal")
	if _, err := table.Claim("b", Run{1, 2, ""}); err == nil {
		t.Error("a claim was taken")
	}
	assert.Error(t, table.Close(), "closed without an error")
}

// TestLostFileIsFatal checks that a running node ends when the file of its table, or the folder, is removed, moved or
// replaced. A write to the open file would succeed, and its next start would not find the table.
func TestLostFileIsFatal(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"the folder is removed": os.RemoveAll,
		"the folder is moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
		"the file is removed":   func(dir string) error { return os.Remove(filepath.Join(dir, FileName)) },
		"a copy replaces the file": func(dir string) error {
			path := filepath.Join(dir, FileName)
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".copy", data, 0o600), os.Rename(path+".copy", path))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			assert.NoError(t, os.Mkdir(dir, 0o700))
			fatal := make(chan error, 1)
			table, err := Open(Config{Dir: dir, Node: "self", New: true, Fatal: func(err error) { fatal <- err }})
			assert.NoError(t, err)
			assert.NoError(t, lose(dir))
			table.Saw("b", 1, 2, 3, 2)
			time.Sleep(2 * writeEvery)
			select {
			case err := <-fatal:
				assert.Error(t, err, "%s: the node ends without a reason", name)
			default:
				t.Errorf("%s: the node goes on", name)
			}
			if _, err := table.Claim("b", Run{1, 2, ""}); err == nil {
				t.Errorf("%s: a claim was taken", name)
			}
			assert.Error(t, table.Close(), "%s: closed without an error", name)
		})
	}
}

// Saw allocates no memory once the node is known in the group.
func TestSeeingCostsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := openTable(t, t.TempDir(), true)
		index := uint64(0)
		table.Saw("b", 1, 1, 0, 0)
		if n := testing.AllocsPerRun(1000, func() { index++; table.Saw("b", 1, 1, index, 1) }); n > 0.1 { // the writer runs beside
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkSaw(b *testing.B) {
	table, err := Open(Config{Dir: b.TempDir(), Node: "self", New: true, Fatal: func(err error) { b.Error(err) }})
	assert.NoError(b, err)
	defer table.Close()
	index := uint64(0)
	for b.Loop() {
		index++
		table.Saw("b", 1, 1, index, 1)
	}
}

// BenchmarkWrite writes the table of a cluster of three nodes with twelve shards.
func BenchmarkWrite(b *testing.B) {
	table, err := Open(Config{Dir: b.TempDir(), Node: "self", New: true, Fatal: func(err error) { b.Error(err) }})
	assert.NoError(b, err)
	defer table.Close()
	index := uint64(1e6)
	for b.Loop() {
		index++
		for group := range uint32(13) {
			table.Saw("01KB9Q5J8Z0000000000000002", group, 7, index, 7)
			table.Saw("01KB9Q5J8Z0000000000000003", group, 7, index, 7)
		}
		assert.NoError(b, table.flush())
	}
}
