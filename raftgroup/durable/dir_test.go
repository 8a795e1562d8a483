package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMakeDir(t *testing.T) {
	deep := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 { // the folder exists the second time
		if err := MakeDir(deep); err != nil {
			t.Fatal(err)
		}
	}
	for dir := deep; filepath.Base(dir) != "001"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v %v", dir, info, err)
		}
	}
	file := filepath.Join(deep, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeDir(filepath.Join(file, "below")); err == nil {
		t.Error("a folder below a file")
	}
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
