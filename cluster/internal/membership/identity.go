package membership

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// IDBytes is the length of every node id and cluster id: 80 random bits in lower-case base32.
const IDBytes = 16

const (
	identityFile    = "node.json"
	groupsName      = "groups"
	journalName     = "journal"
	identityVersion = 1
)

// NewID mints a node id or cluster id.
func NewID() string {
	var raw [IDBytes * 5 / 8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(raw[:]))
}

// Promise is a node's word to be part of one cluster, formed by these nodes.
type Promise struct {
	ClusterID string   `json:"cluster_id"`
	Nodes     []string `json:"nodes"` // sorted
}

// Equal reports whether both promises are the same.
func (p Promise) Equal(o Promise) bool {
	return p.ClusterID == o.ClusterID && slices.Equal(p.Nodes, o.Nodes)
}

// errPromised refuses a promise because the node has given another one, or because it is in another cluster.
var errPromised = errors.New("this data folder is promised to another cluster")

// record is the content of the file.
type record struct {
	Version   int      `json:"version"`
	NodeID    string   `json:"node_id"`
	Boot      uint64   `json:"boot"`
	Promise   *Promise `json:"promise,omitempty"`    // never changed once given
	ClusterID string   `json:"cluster_id,omitempty"` // never changed once set
	Groups    []uint32 `json:"groups,omitempty"`     // sorted; the groups that live in this folder
	Removing  []uint32 `json:"removing,omitempty"`   // groups whose files are being deleted
	// Left holds the groups that have left the folder, with Joined of the last replica here.
	Left map[uint32]uint64 `json:"left,omitempty"`
	// Joined is the revision of a shard's record at which the node got its replica; absent: at the first placement.
	Joined   map[uint32]uint64 `json:"joined,omitempty"`
	Location *location         `json:"location,omitempty"` // where this file was written
	Copied   bool              `json:"copied,omitempty"`   // the folder was found elsewhere and is not confirmed yet
}

// Identity is an opened data folder. Its methods are safe for concurrent use.
type Identity struct {
	dir  string
	lock *os.File
	step func(string) error // tests fail the writing of the file here

	mu  sync.Mutex
	now record // the record on disk, except its location
}

// OpenIdentity locks the folder, creates it if it is missing, and counts one more start.
func OpenIdentity(dir string) (*Identity, error) {
	return openIdentity(dir, func(string) error { return nil })
}

func openIdentity(dir string, step func(string) error) (*Identity, error) {
	if err := checkRestored(dir); err != nil {
		return nil, err
	}
	return openUnmarked(dir, step)
}

func openUnmarked(dir string, step func(string) error) (*Identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	id := &Identity{dir: dir, lock: lock, step: step}
	if err := id.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	copied, err := id.moved()
	if err == nil {
		err = id.change(func(r *record) { r.Boot++; r.Copied = r.Copied || copied })
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return id, nil
}

// load reads the file, or mints an id if the folder is a new one.
func (id *Identity) load() error {
	data, err := os.ReadFile(filepath.Join(id.dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return id.mint()
	}
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := json.Unmarshal(data, &id.now); err != nil {
		return fmt.Errorf("identity: %s: %w", identityFile, err)
	}
	if id.now.Version != identityVersion {
		return fmt.Errorf("identity: %s is of version %d, this build reads %d", identityFile, id.now.Version,
			identityVersion)
	}
	if len(id.now.NodeID) != IDBytes {
		return fmt.Errorf("identity: %s has no valid node id", identityFile)
	}
	return nil
}

func (id *Identity) mint() error {
	if _, err := os.Stat(filepath.Join(id.dir, groupsName)); err == nil {
		return fmt.Errorf("identity: %s holds Raft groups but no %s: whose they were is not known, so they cannot be used",
			id.dir, identityFile)
	}
	id.now = record{Version: identityVersion, NodeID: NewID()}
	return nil
}

// change edits a copy of the record, makes it durable, and only then replaces the record in memory.
func (id *Identity) change(edit func(*record)) error {
	next := id.now
	edit(&next)
	if err := id.save(next); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	id.now = next
	return nil
}

// NodeID returns the folder's node id.
func (id *Identity) NodeID() string {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.now.NodeID
}

// Boot returns the number of the folder's starts, this one included.
func (id *Identity) Boot() uint64 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.now.Boot
}

// ClusterID returns the cluster that the node is in, or "" if none.
func (id *Identity) ClusterID() string {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.now.ClusterID
}

// Promised returns the promise that the node has given; false: none.
func (id *Identity) Promised() (Promise, bool) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.now.Promise == nil {
		return Promise{}, false
	}
	return *id.now.Promise, true
}

// Give gives the promise and makes it durable. It succeeds if the node has given the same promise before; after another
// promise, or in a cluster, it returns errPromised.
func (id *Identity) Give(p Promise) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.now.Promise != nil && id.now.Promise.Equal(p):
		return nil
	case id.now.Promise != nil || id.now.ClusterID != "":
		return errPromised
	case len(p.ClusterID) != IDBytes || !slices.IsSorted(p.Nodes) || !slices.Contains(p.Nodes, id.now.NodeID):
		return fmt.Errorf("identity: not a promise that this node can give: %+v", p)
	}
	return id.change(func(r *record) { r.Promise = &Promise{ClusterID: p.ClusterID, Nodes: slices.Clone(p.Nodes)} })
}

// Enter makes the node a member of the cluster, permanently. It succeeds if the node is in the cluster already. While
// the node is promised to another cluster, it returns errPromised.
func (id *Identity) Enter(clusterID string) error { return id.enter(clusterID, false) }

// EnterInstead is Enter for a node whose promise is void: some node of the promised list is permanently promised or a
// member elsewhere, so the promised cluster will never be formed. The caller has made sure of that.
func (id *Identity) EnterInstead(clusterID string) error { return id.enter(clusterID, true) }

func (id *Identity) enter(clusterID string, void bool) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.now.ClusterID == clusterID && clusterID != "":
		return nil
	case id.now.ClusterID != "":
		return fmt.Errorf("identity: this data folder belongs to cluster %s, not to %s", id.now.ClusterID, clusterID)
	case len(clusterID) != IDBytes:
		return fmt.Errorf("identity: %q is no cluster id", clusterID)
	case !void && id.now.Promise != nil && id.now.Promise.ClusterID != clusterID:
		return errPromised
	}
	return id.change(func(r *record) { r.ClusterID = clusterID })
}

// Copied reports whether the folder differs from the one in which its record was last written, as after a copy or a
// restore, and has not been confirmed since. Then the folder may not be the node's newest.
func (id *Identity) Copied() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.now.Copied
}

// Confirm records, durably, that the folder is the node's newest.
func (id *Identity) Confirm() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if !id.now.Copied {
		return nil
	}
	return id.change(func(r *record) { r.Copied = false })
}

// JournalDir returns the path of the journal that all groups share. It does not create the folder.
func (id *Identity) JournalDir() string { return filepath.Join(id.dir, journalName) }

// Close unlocks the folder.
func (id *Identity) Close() error { return id.lock.Close() }

// InspectIdentity opens a data folder read-only, and keeps nodes out of it until Close. It fails if a running node has
// the folder open.
func InspectIdentity(dir string) (*Identity, error) {
	if err := checkRestored(dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, identityFile)); err != nil {
		return nil, fmt.Errorf("%s is no node's data folder: %w", dir, err)
	}
	lock, err := lockToLook(dir)
	if err != nil {
		return nil, err
	}
	id := &Identity{dir: dir, lock: lock, step: func(string) error { return errors.New("it is only looked at") }}
	if err := id.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	copied, err := id.moved()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	id.now.Copied = id.now.Copied || copied
	return id, nil
}

// Groups returns the groups that have lived here by the folder's record.
func (id *Identity) Groups() []uint32 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return append([]uint32(nil), id.now.Groups...)
}

// save replaces the file so that a crash at any step leaves either the old file or the new one, whole.
func (id *Identity) save(r record) error {
	content := func(aside *os.File) (_ []byte, err error) {
		if r.Location, err = locate(id.dir, aside); err != nil {
			return nil, err
		}
		data, err := json.MarshalIndent(r, "", "  ")
		return append(data, '\n'), err
	}
	return durable.ReplaceWith(filepath.Join(id.dir, identityFile), content, id.step)
}

// errInUse says that another process holds the lock, and adds the system's error.
func errInUse(dir string, err error) error {
	return fmt.Errorf("data folder %s is in use by another process: %w", dir, err)
}
