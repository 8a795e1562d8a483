package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard"
)

// BackupReport describes the content of a backup.
type BackupReport struct {
	ClusterID string        `json:"cluster_id"`
	MadeAt    string        `json:"made_at"`
	Policies  int           `json:"policies"` // of queues
	Bytes     uint64        `json:"bytes"`    // read
	SHA256    string        `json:"sha256"`   // of all bytes before the last piece; empty if the backup is not whole
	Shards    []BackupShard `json:"shards"`
	Problems  []string      `json:"problems"`
}

// BackupShard is one shard's part of the report.
type BackupShard struct {
	Number   uint32         `json:"shard"`
	Term     uint64         `json:"term"`
	Index    uint64         `json:"index"`
	CutAt    string         `json:"cut_at"`      // the leader's wall clock
	Time     string         `json:"shard_time"`  // the shard's own time
	Position string         `json:"advanced_to"` // tasks due by then had come due
	Commands uint64         `json:"commands"`
	Hash     string         `json:"hash"`
	Tasks    map[string]int `json:"tasks"` // by state
}

// Sound reports whether the backup is whole and undamaged.
func (r *BackupReport) Sound() bool { return len(r.Problems) == 0 }

// VerifyBackup reads a backup through. It compares the checksums of all pieces and of the whole, restores the state of
// each shard in memory, and compares the state with its own hash. It returns an error if the stream is no backup or
// cannot be read; damage stands in the report.
func VerifyBackup(ctx context.Context, from io.Reader) (*BackupReport, error) {
	report := &BackupReport{Shards: []BackupShard{}, Problems: []string{}}
	b, err := backup.NewReader(from)
	if err != nil {
		return report.with(err)
	}
	h := b.Header()
	report.ClusterID, report.MadeAt, report.Policies = h.ClusterId, instant(h.MadeAtMs), len(h.Control.GetQueues())
	if err := backup.CheckHeader(h); err != nil {
		report.Problems = append(report.Problems, err.Error())
	}
	for ctx.Err() == nil {
		cut, err := b.Next()
		report.Bytes = b.Bytes()
		if errors.Is(err, io.EOF) {
			report.SHA256 = b.Sum()
			return report, nil
		}
		if err == nil {
			err = report.readShard(b, cut)
		}
		if err != nil {
			return report.with(err)
		}
	}
	return nil, ctx.Err()
}

// with returns the report with an error as its problem if the error is a damage.
func (r *BackupReport) with(err error) (*BackupReport, error) {
	var damage *backup.DamageError
	if !errors.As(err, &damage) {
		return nil, err
	}
	r.Problems = append(r.Problems, damage.Error())
	return r, nil
}

// readShard restores the state of a shard. The error is that of the stream; a wrong state stands in the report.
func (r *BackupReport) readShard(b *backup.Reader, cut *clusterpb.BackupShard) error {
	state := &remembering{Reader: b}
	m, index, err := shard.ReadSnapshot(cut.Shard, state)
	if state.failed != nil {
		return state.failed
	}
	if _, rest := io.Copy(io.Discard, b); rest != nil {
		return rest
	}
	if err == nil && index != cut.Index {
		err = fmt.Errorf("the state is of index %d, and its cut of index %d", index, cut.Index)
	}
	if err != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("shard %d: %v", cut.Shard, err))
		return nil
	}
	r.Shards = append(r.Shards, describe(m, cut))
	return nil
}

func describe(m *fsm.Machine, cut *clusterpb.BackupShard) BackupShard {
	commands, sum := m.Hash()
	return BackupShard{
		Number: cut.Shard, Term: cut.Term, Index: cut.Index, CutAt: instant(cut.CutMs), Time: instant(cut.NowMs),
		Position: instant(cut.PositionMs), Commands: commands, Hash: fmt.Sprintf("%016x", sum), Tasks: byState(m.Counts()),
	}
}

func byState(counts fsm.Counts) map[string]int {
	tasks := make(map[string]int)
	for state, n := range counts.ByState {
		if n > 0 {
			tasks[stateName(fsmpb.State(state))] = n
		}
	}
	return tasks
}

func stateName(s fsmpb.State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// remembering remembers an error of its reader, which the parser of a state would wrap or replace.
type remembering struct {
	io.Reader
	failed error
}

func (r *remembering) Read(to []byte) (int, error) {
	n, err := r.Reader.Read(to)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}
