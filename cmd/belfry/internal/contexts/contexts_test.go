package contexts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func loaded(t *testing.T, path string) *File {
	t.Helper()
	f, err := Load(path)
	assert.NoError(t, err)
	return f
}

// A saved file is read back as it was. It is in a folder of its own, and only its owner can read it.
func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "contexts.yaml")
	f := loaded(t, path)
	f.Current = "prod"
	f.Contexts["prod"] = &Context{Addrs: []string{"n1:8400", "n2:8400"}, Namespace: "orders", Key: NewKey("bfy_secret")}
	f.Contexts["test"] = &Context{Addrs: []string{"n3:8400"}, KeyFile: "/k", CA: "/ca", ClientCert: "/c", ClientKey: "/ck"}
	assert.NoError(t, f.Save())
	again := loaded(t, path)
	if fmt.Sprintf("%+v %+v", again.Contexts["prod"], again.Contexts["test"]) !=
		fmt.Sprintf("%+v %+v", f.Contexts["prod"], f.Contexts["test"]) ||
		again.Current != "prod" || again.Contexts["prod"].Key.Text() != "bfy_secret" {
		t.Errorf("read %+v", again)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

// The key of a context is printed by no verb of fmt.
func TestKeysAreNotPrinted(t *testing.T) {
	c := Context{Key: NewKey("bfy_secret")}
	if text := fmt.Sprintf("%v %+v %#v %s", c, c, c, c.Key); strings.Contains(text, "bfy_secret") {
		t.Error(text)
	}
}

// A file that cannot be replaced keeps its content, and a half-written file is removed.
func TestFailedSaveChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	assert.NoError(t, os.MkdirAll(filepath.Join(path, "in-the-way"), 0o700))
	f := &File{path: path, Contexts: map[string]*Context{"a": {Addrs: []string{"n1"}}}}
	if err := f.Save(); err == nil {
		t.Fatal("a folder was replaced")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

// A link to the file stays a link.
func TestSaveFollowsALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "kept.yaml"), filepath.Join(dir, "contexts.yaml")
	assert.NoError(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)))
	f := loaded(t, link)
	f.Contexts["a"] = &Context{Addrs: []string{"n1"}}
	assert.NoError(t, f.Save())
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	assert.Equal(t, len(loaded(t, file).Contexts), 1, "the file behind the link is as it was")
}

func TestRefusedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	for text, want := range map[string]string{
		"contexts: [a]":                                "cannot unmarshal",
		"contexts: {a: {adr: [x]}}":                    "field adr not found",
		"contexts: {'../a': {addr: [x]}}":              "is no name of a context",
		"contexts: {a: {key: x, key-file: y}}":         "has a key and a key-file",
		"current: a\ncontexts: {a: {addr: [x]}}\nb: 1": "field b not found",
	} {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644} {
		assert.NoError(t, os.Chmod(path, mode))
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// Without a home folder there are no contexts, and Save says how to get a place for them.
func TestNoFolder(t *testing.T) {
	f := loaded(t, "")
	if err := f.Save(); err == nil || !strings.Contains(err.Error(), PathVariable) {
		t.Errorf("%v", err)
	}
	got := Path(func(string) (string, bool) { return "/x", true })
	assert.Equal(t, got, "/x")
}
