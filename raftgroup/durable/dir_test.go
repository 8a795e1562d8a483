package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestMakeDir(t *testing.T) {
	deep := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 { // the folder exists the second time
		assert.NoError(t, MakeDir(deep))
	}
	for dir := deep; filepath.Base(dir) != "001"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v %v", dir, info, err)
		}
	}
	file := filepath.Join(deep, "file")
	assert.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Error(t, MakeDir(filepath.Join(file, "below")), "a folder below a file")
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, SyncDir(dir), nil)
	assert.ErrorIs(t, SyncDir(filepath.Join(dir, "absent")), fs.ErrNotExist)
}
