package membership

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// Opened reports whether the group lives in this folder.
func (id *Identity) Opened(group uint32) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return slices.Contains(id.now.Groups, group)
}

// Joined returns the revision of the shard's record at which the node got its replica, and 0 if that was at the first
// placement or the group has no files here.
func (id *Identity) Joined(group uint32) uint64 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.now.Joined[group]
}

// Held returns the groups in the folder's record and those that have a folder here, sorted.
func (id *Identity) Held() []uint32 {
	held := id.Groups()
	found, err := os.ReadDir(filepath.Join(id.dir, groupsName))
	if err != nil {
		return held // no group has a folder yet; an unreadable folder is noticed group by group
	}
	for _, f := range found {
		number, err := strconv.ParseUint(f.Name(), 10, 32)
		if err == nil && f.IsDir() && !slices.Contains(held, uint32(number)) {
			held = append(held, uint32(number))
		}
	}
	slices.Sort(held)
	return held
}

// RecordJoined records, durably and before the group has any file, the revision at which its replica joined. So the
// files of a replica whose first opening was interrupted are known for that replica's.
func (id *Identity) RecordJoined(group uint32, joined uint64) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if joined <= id.now.Joined[group] {
		return nil
	}
	return id.change(func(r *record) { r.join(group, joined) })
}

func (r *record) join(group uint32, joined uint64) {
	r.Joined = maps.Clone(r.Joined)
	if r.Joined == nil {
		r.Joined = make(map[uint32]uint64)
	}
	r.Joined[group] = joined
}

// RecordOpened records, durably, that the group lives in this folder from now on, and the revision at which it joined.
func (id *Identity) RecordOpened(group uint32, joined uint64) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if slices.Contains(id.now.Groups, group) {
		return nil
	}
	return id.change(func(r *record) {
		r.Groups = append(slices.Clone(r.Groups), group)
		slices.Sort(r.Groups)
		if joined > 0 {
			r.join(group, joined)
		}
	})
}

// Remove deletes the files of a group that the node has left. forget is called between the durable decision and the
// deletion, to drop other records of the group. A removal that a crash interrupts is finished by ResumeRemovals, which
// calls forget again.
func (id *Identity) Remove(group uint32, forget func(group uint32) error) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if !slices.Contains(id.now.Removing, group) {
		if err := id.change(func(r *record) { r.Removing = append(slices.Clone(r.Removing), group) }); err != nil {
			return err
		}
	}
	return id.finishRemoval(group, forget)
}

// ResumeRemovals finishes the removals that the previous process began. It is called before any group is opened.
func (id *Identity) ResumeRemovals(forget func(group uint32) error) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	for _, group := range id.now.Removing {
		if err := id.finishRemoval(group, forget); err != nil {
			return err
		}
	}
	return nil
}

func (id *Identity) finishRemoval(group uint32, forget func(group uint32) error) error {
	if err := forget(group); err != nil {
		return err
	}
	if err := os.RemoveAll(id.GroupDir(group)); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := durable.SyncDir(filepath.Join(id.dir, groupsName)); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	is := func(one uint32) bool { return one == group }
	return id.change(func(r *record) {
		r.Groups = slices.DeleteFunc(slices.Clone(r.Groups), is)
		r.Removing = slices.DeleteFunc(slices.Clone(r.Removing), is)
		left := maps.Clone(r.Left)
		if left == nil {
			left = make(map[uint32]uint64)
		}
		left[group] = r.Joined[group]
		r.Left, r.Joined = left, maps.Clone(r.Joined)
		delete(r.Joined, group)
	})
}

// IsOver reports whether a replica that joined at a revision has left this folder: its files are gone, or those of a
// later replica took their place. A log that is read again after a restart still shows such a replica.
func (id *Identity) IsOver(group uint32, joined uint64) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	left, hasLeft := id.now.Left[group]
	return joined < id.now.Joined[group] || hasLeft && joined <= left
}

// Left returns the groups that have left the folder, with the revision at which the last replica here had joined.
func (id *Identity) Left() map[uint32]uint64 {
	id.mu.Lock()
	defer id.mu.Unlock()
	return maps.Clone(id.now.Left)
}

// GroupDir returns the path of the group's files. It does not create the folder.
func (id *Identity) GroupDir(group uint32) string {
	return filepath.Join(id.dir, groupsName, fmt.Sprintf("%04d", group))
}
