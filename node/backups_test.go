package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/internal/assert"
)

// A node with a schedule makes its first backup at once, and shows it in its view and in its metrics.
func TestScheduledBackup(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := testConfig(t)
		cfg.Backups = BackupConfig{To: dir, Every: time.Hour, Keep: 2}
		n, c := start(t, cfg)
		var made *client.BackupTry
		until(t, func() bool {
			view, err := c.Cluster(t.Context())
			assert.NoError(t, err)
			if b := view.Backups; b != nil && b.LastFailed != nil {
				t.Fatalf("%+v", b.LastFailed)
			}
			if view.Backups != nil {
				made = view.Backups.LastKept
			}
			return made != nil
		})
		if made.Node != n.ID() || filepath.Dir(made.Place) != dir || made.SeenAt.Before(made.BegunAt.Time) {
			t.Errorf("%+v", made)
		}
		file, err := os.Open(made.Place)
		assert.NoError(t, err)
		defer file.Close()
		if report, err := recovery.VerifyBackup(t.Context(), file); err != nil || !report.Sound() || int64(report.Bytes) != made.Bytes {
			t.Errorf("%+v, %v", report, err)
		}
		_, metrics := request(t, plain(t, cfg), "GET", "http://"+n.HTTPAddr()+"/metrics")
		for _, line := range []string{
			"belfry_backup_last_success_timestamp_seconds ", "belfry_backup_failing 0\n", "belfry_backup_running 0\n",
		} {
			assert.Contains(t, metrics, "\n"+line, "no metric %q", line)
		}
	})
}

// patience is how long a node may take to reach a state by itself.
const patience = 2 * time.Minute

// until waits until a condition holds.
func until(t testing.TB, holds func() bool) {
	t.Helper()
	tick, late := time.NewTicker(10*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v", patience)
		}
	}
}

func TestBackupSettings(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	dir := t.TempDir()
	for want, b := range map[string]BackupConfig{
		"":             {To: dir, Every: time.Minute},
		"backup-to":    {Every: time.Hour},
		"backup-every": {To: dir},
		"backup-keep":  {To: dir, Every: time.Hour, Keep: -1},
		"backup-rate":  {To: dir, Every: time.Hour, Rate: 5},
	} {
		checkSetting(t, want, b)
	}
	for _, to := range []string{filepath.Join(dir, "file"), filepath.Join(dir, "absent") + "/", "s3://bucket"} {
		checkSetting(t, "backup-to", BackupConfig{To: to, Every: time.Hour})
	}
}

func checkSetting(t *testing.T, want string, b BackupConfig) {
	t.Helper()
	cfg := testConfig(t)
	cfg.Backups = b
	err := cfg.Validate()
	var setting *SettingError
	if want == "" && err != nil || want != "" && (!errors.As(err, &setting) || setting.Setting != want) {
		t.Errorf("%+v: %v, want %q", b, err, want)
	}
}
