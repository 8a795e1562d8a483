package disk

import "github.com/hashicorp/raft"

// Reconfiguration is a change of a group's members: an entry of the log with a configuration, and the configuration
// that the same log has before the entry.
type Reconfiguration struct {
	Index, Term   uint64
	Before, After raft.Configuration
}

// Watch has report called for each configuration that a process is about to append to the log. It is called before the
// first process opens the disk.
func (d *Disk) Watch(report func(Reconfiguration)) { d.report = report }

// reportMembers reports the configurations among entries that are about to be appended.
func (s *Stores) reportMembers(entries []*raft.Log) {
	if s.disk.report == nil {
		return
	}
	for i, e := range entries {
		if e.Type != raft.LogConfiguration {
			continue
		}
		s.disk.mu.Lock()
		alive, before := s.disk.open == s, s.content.configuration(entries[:i])
		s.disk.mu.Unlock()
		if alive {
			s.disk.report(Reconfiguration{e.Index, e.Term, before, raft.DecodeConfiguration(e.Data)})
		}
	}
}

// configuration returns the newest configuration in a log with further entries at its end, or in its snapshot.
func (c *content) configuration(further []*raft.Log) raft.Configuration {
	for i := len(further) - 1; i >= 0; i-- {
		if further[i].Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(further[i].Data)
		}
	}
	for i := c.last; i >= max(c.first, 1); i-- {
		if l := c.logs[i]; l != nil && l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data)
		}
	}
	if newest := c.newest(); newest != nil {
		return newest.meta.Configuration
	}
	return raft.Configuration{}
}

// Last returns the index of the last entry on the disk, in the log or in a snapshot.
func (d *Disk) Last() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.content.last
	if newest := d.content.newest(); newest != nil {
		last = max(last, newest.meta.Index)
	}
	return last
}

// Configuration returns the newest configuration up to an index, in the log or the newest snapshot, and its own index.
func (d *Disk) Configuration(upTo uint64) (index uint64, c raft.Configuration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := min(upTo, d.content.last); i >= max(d.content.first, 1); i-- {
		if l := d.content.logs[i]; l != nil && l.Type == raft.LogConfiguration {
			return i, raft.DecodeConfiguration(l.Data)
		}
	}
	if newest := d.content.newest(); newest != nil {
		return newest.meta.ConfigurationIndex, newest.meta.Configuration
	}
	return 0, raft.Configuration{}
}
