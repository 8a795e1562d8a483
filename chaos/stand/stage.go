package stand

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/deploy/local"
)

// openDisks mounts a disk for each node, and moves the nodes' data to the disks. The content of the disks stays for a
// later stand in the same folder.
func openDisks(cfg Config, places []local.Place) (map[string]*lossyfs.Disk, error) {
	disks := map[string]*lossyfs.Disk{}
	for i, name := range names(len(places)) {
		dir := filepath.Join(cfg.Dir, "disks", name)
		d, err := lossyfs.Mount(filepath.Join(dir, "mount"), filepath.Join(dir, "backing"), cfg.Seed+uint64(i))
		if err != nil {
			for _, mounted := range disks {
				err = errors.Join(err, mounted.Close())
			}
			return nil, err
		}
		disks[name] = d
		places[i].Data = filepath.Join(d.Mountpoint(), "data")
	}
	return disks, nil
}

// Shared is a number in a file that a node maps, too, so that the node sees each change at once. The node's build needs
// the tag chaos.
type Shared struct {
	mapped []byte
	number *atomic.Int64
}

const sharedBytes = 8

// Set changes the number.
func (s *Shared) Set(n int64) { s.number.Store(n) }

// share makes a file with a zero in it for each node, in a folder. It gives each node the path of its file in an
// environment variable, and returns the numbers by node.
func share(places []local.Place, variable, folder string) (map[string]*Shared, error) {
	all := make(map[string]*Shared, len(places))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for i, name := range names(len(places)) {
		path := filepath.Join(folder, name)
		number, err := openShared(path)
		if err != nil {
			return all, fmt.Errorf("a number shared with %s: %w", name, err)
		}
		places[i].Env = append(slices.Clip(places[i].Env), variable+"="+path)
		all[name] = number
	}
	return all, nil
}

func shareClocks(dir string, places []local.Place) (map[string]*Shared, error) {
	return share(places, "BELFRY_CLOCK_OFFSET_FILE", filepath.Join(dir, "clocks"))
}

func shareGossip(dir string, places []local.Place) (map[string]*Shared, error) {
	return share(places, "BELFRY_GOSSIP_MUTE_FILE", filepath.Join(dir, "gossip"))
}

func openShared(path string) (_ *Shared, err error) {
	if err := os.WriteFile(path, make([]byte, sharedBytes), 0o644); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // the mapping stays
	mapped, err := syscall.Mmap(int(file.Fd()), 0, sharedBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	return &Shared{mapped, (*atomic.Int64)(unsafe.Pointer(&mapped[0]))}, nil
}

func (s *Shared) close() error { return syscall.Munmap(s.mapped) }

// closeAll closes all values of a map from nodes to resources, and joins the errors.
func closeAll[T interface{ close() error }](all map[string]T) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}

// GossipPorts returns the nodes' peer addresses if gossip has no key, which is on loopback. Beyond loopback gossip must
// have a key, and GossipPorts returns none.
func (s *Stand) GossipPorts() []string {
	if s.Network != nil {
		return nil
	}
	var addrs []string
	for _, n := range s.Cluster.Nodes() {
		addrs = append(addrs, n.PeerAddr)
	}
	return addrs
}

// Memory is a control group of the kernel, of version 1 or 2. Each process of one node runs in it.
type Memory struct {
	dir   string
	limit string // file with the bound
	stat  string // line of memory.stat that counts memory that cannot be reclaimed
	no    string // value without a bound
}

// The folders of the memory controller in the two versions of control groups.
const (
	cgroupV1 = "/sys/fs/cgroup/memory"
	cgroupV2 = "/sys/fs/cgroup"
)

// MemorySupported returns an error about a missing requirement, and nil if nodes' memory can be bounded here.
func MemorySupported() error {
	dir := filepath.Join(memoryRoot(), groupPrefix+strconv.Itoa(os.Getpid())+"-probe")
	m, err := newMemory(dir)
	if err != nil {
		return err
	}
	return m.close()
}

func memoryRoot() string {
	if _, err := os.Stat(filepath.Join(cgroupV1, "memory.limit_in_bytes")); err == nil {
		return cgroupV1
	}
	return cgroupV2
}

func newMemory(dir string) (*Memory, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("bounding a node's memory needs root, for a control group")
	}
	m := &Memory{dir: dir, limit: "memory.limit_in_bytes", stat: "total_rss ", no: "-1"}
	if memoryRoot() == cgroupV2 {
		m = &Memory{dir: dir, limit: "memory.max", stat: "anon ", no: "max"}
		if err := write(filepath.Join(cgroupV2, "cgroup.subtree_control"), "+memory"); err != nil {
			return nil, fmt.Errorf("this system's control groups do not bound memory: %w", err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("a control group for memory cannot be made: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, m.limit)); err != nil {
		return nil, errors.Join(fmt.Errorf("this system's control groups do not bound memory: %w", err), m.close())
	}
	return m, nil
}

// command returns a prefix that moves its process into the group and then becomes the appended command.
func (m *Memory) command() []string {
	return []string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(m.dir, "cgroup.procs")}
}

// Squeeze bounds the node's memory to the current unreclaimable part plus room bytes.
func (m *Memory) Squeeze(room int64) error {
	held, err := m.count("memory.stat", m.stat)
	if err != nil {
		return err
	}
	for more := int64(0); ; more += max(more/2, squeezeStep) {
		err = m.bound(strconv.FormatInt(held+room+more, 10))
		if !errors.Is(err, syscall.EBUSY) || more > mostSqueezed {
			return err
		}
	}
}

// Version 1 refuses a bound below the memory that it cannot reclaim at the moment, which is more than the node's own
// part. Squeeze raises the bound until it is accepted.
const (
	squeezeStep  = 1 << 20
	mostSqueezed = 1 << 30
)

// Release removes the bound.
func (m *Memory) Release() error { return m.bound(m.no) }

func (m *Memory) bound(value string) error { return write(filepath.Join(m.dir, m.limit), value) }

// count returns the number behind a name in a file.
func (m *Memory) count(file, name string) (int64, error) {
	f, err := os.Open(filepath.Join(m.dir, file))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s has no line %q", file, name))
}

// write writes to an existing file. The kernel may refuse the value.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

const (
	goneAfter = 2 * time.Second // an ended process may stay in its group for a moment
	gonePoll  = 20 * time.Millisecond
)

func (m *Memory) close() error {
	end := time.Now().Add(goneAfter)
	for {
		err := os.Remove(m.dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		<-time.After(gonePoll)
	}
}

// sweep removes the groups of programs that were killed. Groups that still hold a process stay.
func sweep() error {
	left, err := filepath.Glob(filepath.Join(memoryRoot(), groupPrefix+"*"))
	for _, dir := range left {
		var pid int
		if _, scanned := fmt.Sscanf(filepath.Base(dir), groupPrefix+"%d-", &pid); scanned != nil {
			continue // a group of another program
		}
		if _, gone := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); errors.Is(gone, fs.ErrNotExist) {
			_ = os.Remove(dir) // if it fails, a later run removes the group
		}
	}
	return err
}

const groupPrefix = "belfry-"

// openMemories gives every node a group, and moves the nodes' processes to the groups.
func openMemories(places []local.Place) (map[string]*Memory, error) {
	if err := sweep(); err != nil {
		return nil, err
	}
	memories := map[string]*Memory{}
	for i, name := range names(len(places)) {
		m, err := newMemory(filepath.Join(memoryRoot(), fmt.Sprintf(groupPrefix+"%d-%s", os.Getpid(), name)))
		if err != nil {
			return memories, err
		}
		memories[name] = m
		places[i].Command = append(slices.Clip(places[i].Command), m.command()...)
	}
	return memories, nil
}
