package cuts

import (
	"context"
	"io"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Summary describes a backup that was written whole.
type Summary struct {
	SHA256 string // of all bytes before the last piece, in hexadecimal
	Bytes  uint64
	Shards []*clusterpb.BackupShard
}

// pauseEvery is the time after which a pause is written while the shards are being cut. It is shorter than the patience
// of usual proxies.
const pauseEvery = 10 * time.Second

// Backup writes a backup of the cluster to w, at rate bytes a second at most; 0: no limit. See package backup. Backup
// writes nothing before all shards are cut, except a pause every ten seconds. Errors before the first byte wrap
// task.ErrNotProposed.
func (t *Taker) Backup(ctx context.Context, w io.Writer, rate int64) (Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := backup.NewWriter(atRate(ctx, w, rate))
	set, err := t.takeWith(ctx, cancel, out)
	if err != nil {
		return Summary{}, err
	}
	defer set.Close()
	if err := t.write(out, set); err != nil {
		return Summary{}, err
	}
	return Summary{SHA256: out.Sum(), Bytes: out.Bytes(), Shards: set.Shards}, nil
}

// takeWith cuts all shards, and writes a pause now and then meanwhile. abandon ends the cuts.
func (t *Taker) takeWith(ctx context.Context, abandon func(), out *backup.Writer) (set *Set, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		set, err = t.Take(ctx)
	}()
	pause := time.NewTicker(pauseEvery)
	defer pause.Stop()
	for {
		select {
		case <-done:
			return set, err
		case <-pause.C:
			if failed := out.Pause(); failed != nil {
				abandon()
				<-done
				if set != nil {
					set.Close()
				}
				return nil, failed
			}
		}
	}
}

func (t *Taker) write(out *backup.Writer, set *Set) error {
	err := out.Header(&clusterpb.BackupHeader{
		ClusterId: set.State.ClusterId, MadeAtMs: t.cfg.Clock().UnixMilli(), MadeBy: t.cfg.Self, Control: set.State,
		Shards: set.Shards,
	})
	for i, shard := range set.Shards {
		if err == nil {
			err = out.Section(shard.Shard, set.states[i])
		}
	}
	if err != nil {
		return err
	}
	return out.Close()
}
