package raftdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// ErrForeign is the error of a folder, or a part of one, that belongs to another group or node. Nothing in it may be
// used: the operator must put the right files back.
var ErrForeign = errors.New("the folder belongs to another group or node")

// ownerFile is the file that names a folder's owner. It stands beside the log, beside its segments, and beside the
// snapshots, since each of them can be exchanged alone.
const ownerFile = "OWNER"

// Owner names the replica that a folder belongs to.
type Owner struct {
	Cluster, Node string
	Group         uint32
}

func (o Owner) String() string {
	return fmt.Sprintf("cluster %s group %d node %s", o.Cluster, o.Group, o.Node)
}

// Check compares the marks on the parts of a group's folder with the owner. A missing part passes. A part with content
// and no mark is foreign.
func (o Owner) Check(dir, logDir string) error {
	for _, part := range parts(dir, logDir) {
		if _, err := o.check(part); err != nil {
			return err
		}
	}
	return nil
}

// mark is Check, and marks the new parts.
func (o Owner) mark(dir, logDir string) error {
	for _, part := range parts(dir, logDir) {
		marked, err := o.check(part)
		if err == nil && !marked {
			err = durable.MakeDir(part)
			if err == nil {
				err = durable.Replace(filepath.Join(part, ownerFile), []byte(o.String()+"\n"), nil)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parts(dir, logDir string) []string {
	return []string{logDir, filepath.Join(logDir, "wal"), filepath.Join(dir, "snapshots")}
}

func (o Owner) check(part string) (marked bool, err error) {
	data, err := os.ReadFile(filepath.Join(part, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, o.checkNew(part)
	}
	if err != nil {
		return false, err
	}
	if found := strings.TrimSpace(string(data)); found != o.String() {
		return false, fmt.Errorf("%w: %s says that it is of %s, and %s is asked for", ErrForeign, part, found, o)
	}
	return true, nil
}

// checkNew returns an error for a part that has files and no mark, because the mark is made before the first file.
func (o Owner) checkNew(part string) error {
	entries, err := os.ReadDir(part)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() && e.Name() != ownerFile+".new" || e.IsDir() && filepath.Base(part) == "snapshots" {
			return fmt.Errorf("%w: %s does not say whose it is, and %s is asked for", ErrForeign, part, o)
		}
	}
	return err
}
