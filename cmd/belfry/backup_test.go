package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/backup/depottest"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/internal/assert"
)

// filled is the number of tasks that fill schedules.
const filled = 50

// fill schedules tasks.
func fill(t *testing.T, c *client.Client) {
	t.Helper()
	for i := range filled {
		_, err := c.Schedule(t.Context(), client.Task{ID: fmt.Sprint("t", i), Delay: time.Hour, Payload: []byte(`"p"`)})
		assert.NoError(t, err)
	}
}

// A backup of a node with the tasks of other tests, too, has all of them.
func TestBackupVerifyRestore(t *testing.T) {
	addr, own, namespace := inNamespace(t)
	fill(t, own)
	dir := t.TempDir()
	file := filepath.Join(dir, "now.backup")
	out, code := belfry(t, "backup", "--addr", "http://"+addr, "--to", file, "--json")
	var made madeBackup
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 || made.Place != file || len(made.Shards) != 2 {
		t.Fatalf("%d, %v\n%s", code, err, out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(made.Bytes) {
		t.Errorf("%v, %v", info, err)
	}
	out, code = belfry(t, "verify", file, "--json")
	var report recovery.BackupReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || report.SHA256 != made.SHA256 {
		t.Errorf("%d, %v\n%s", code, err, out)
	}
	backedUp := 0
	for _, s := range report.Shards {
		backedUp += s.Tasks["scheduled"]
	}
	data := filepath.Join(dir, "data")
	out, code = belfry(t, "restore", file, "--data", data, "--shards", "4", "--json")
	var restored recovery.RestoreReport
	if err := json.Unmarshal([]byte(out), &restored); err != nil || code != 0 || restored.Tasks["scheduled"] < filled ||
		restored.Tasks["scheduled"] != backedUp {
		t.Fatalf("%d, %v\n%s", code, err, out)
	}
	again, c := running(t, "--data", data)
	view, err := c.Cluster(t.Context())
	if err != nil || len(view.Shards) != 4 || view.ID != restored.ClusterID || again == addr {
		t.Errorf("%+v, %v", view, err)
	}
	kept := 0
	for task, err := range dialNamespace(t, again, namespace).List(t.Context(), client.Filter{}) {
		if err != nil || task.State != client.StateScheduled {
			t.Fatalf("%+v, %v", task, err)
		}
		kept++
	}
	if kept != filled {
		t.Errorf("%d of %d tasks", kept, filled)
	}
	if task, err := dialNamespace(t, again, namespace).Get(t.Context(), "t7"); err != nil || string(task.Payload) != `"p"` {
		t.Errorf("%+v, %v", task, err)
	}
	if out, code := belfry(t, "restore", file, "--data", data); code != exitFailed || !strings.Contains(out, "in use") {
		t.Errorf("into a running node's folder: %d\n%s", code, out)
	}
}

func TestVerifySaysWhereABackupIsDamaged(t *testing.T) {
	addr, c, _ := inNamespace(t)
	fill(t, c)
	file := filepath.Join(t.TempDir(), "now.backup")
	out, code := belfry(t, "backup", "--addr", "http://"+addr, "--to", file)
	assert.MustEqual(t, code, 0, "%s", out)
	whole, err := os.ReadFile(file)
	assert.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 4
	for name, data := range map[string][]byte{"flipped": flipped, "cut off": whole[:len(whole)-10]} {
		assert.NoError(t, os.WriteFile(file, data, 0o600))
		for _, args := range [][]string{{"verify", file}, {"restore", file, "--data", filepath.Join(t.TempDir(), "data")}} {
			if out, code := belfry(t, args...); code != exitFailed || !strings.Contains(out, "damaged at byte") {
				t.Errorf("%s: %s: %d\n%s", name, args[0], code, out)
			}
		}
	}
	if out, code := belfry(t, "verify", os.Args[0]); code != exitFailed || !strings.Contains(out, "no backup") {
		t.Errorf("of another file: %d\n%s", code, out)
	}
}

func TestBackupsAreThinned(t *testing.T) {
	addr, c := onNode(t)
	view, err := c.Cluster(t.Context())
	assert.NoError(t, err)
	dir := t.TempDir()
	old := func(id, at string) string {
		path := filepath.Join(dir, "belfry-"+id+"-"+at+".backup")
		assert.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
		return path
	}
	first, second := old(view.ID, "20200101T000000Z"), old(view.ID, "20210101T000000Z")
	other := old("othercluster0000", "20190101T000000Z")
	out, code := belfry(t, "backup", "--addr", "http://"+addr, "--to", dir, "--keep", "2")
	if code != 0 || !strings.Contains(out, first) {
		t.Errorf("%d\n%s", code, out)
	}
	for path, want := range map[string]bool{first: false, second: true, other: true} {
		_, err := os.Stat(path)
		assert.Equal(t, err == nil, want, "%s: %v", path, err)
	}
}

func TestBackupUsage(t *testing.T) {
	for _, args := range [][]string{
		{"backup"},
		{"backup", "--to", "x", "--rate", "fast"},
		{"backup", "--to", "x", "--rate", "5%"},
		{"backup", "--to", "x", "--keep", "2"},
		{"backup", "--to", "-", "--keep", "2"},
		{"backup", "--to", "s3://bucket"},
		{"backup", "--to", "/none/such/"},
		{"restore", "x"},
		{"restore", "x", "--data", "d", "--overdue", "later"},
		{"restore", "x", "--data", "d", "--shards", "-1"},
		{"restore", "x", "--data", "d", "--shards", "257"},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		out, code := belfry(t, args...)
		assert.Equal(t, code, exitUsage, "%v:\n%s", args, out)
	}
}

// Backups go to a real S3 server, and are read from there.
func TestBackupToBucketServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	for name, value := range env {
		t.Setenv(name, value)
	}
	addr, c := running(t, "--shards", "3")
	fill(t, c)
	for range 2 {
		out, code := belfry(t, "backup", "--addr", "http://"+addr, "--to", "s3://"+bucket+"/nightly", "--keep", "1", "--json")
		var made madeBackup
		if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 {
			t.Fatalf("%d, %v\n%s", code, err, out)
		}
		if out, code := belfry(t, "verify", made.Place); code != 0 || !strings.Contains(out, made.SHA256) {
			t.Errorf("%d\n%s", code, out)
		}
		data := filepath.Join(t.TempDir(), "data")
		if out, code := belfry(t, "restore", made.Place, "--data", data); code != 0 || !strings.Contains(out, "50 scheduled") {
			t.Errorf("%d\n%s", code, out)
		}
	}
}
