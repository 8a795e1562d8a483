package backup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster/backup/depottest"
	"github.com/belfryhq/belfry/internal/assert"
)

func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func wanting(text string) func(io.Reader) error {
	return func(r io.Reader) error {
		got, err := io.ReadAll(r)
		if err == nil && string(got) != text {
			err = errors.New("came back as " + string(got))
		}
		return err
	}
}

var errWrong = errors.New("wrong")

// keeps checks the promises of every depot.
func keeps(t *testing.T, d Depot) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"belfry-b", "belfry-a", "other-c"} {
		assert.NoError(t, d.Put(ctx, name, writing(name), wanting(name)))
	}
	names, err := d.List(ctx, "belfry-")
	if err != nil || !slices.Equal(names, []string{"belfry-a", "belfry-b"}) {
		t.Errorf("%v, %v", names, err)
	}
	assert.Equal(t, d.Put(ctx, "belfry-b", writing("replaced"), wanting("replaced")), nil)
	f, err := d.Open(ctx, "belfry-b")
	if err == nil {
		err = errors.Join(wanting("replaced")(f), f.Close())
	}
	assert.Equal(t, err, nil)
	half := func(w io.Writer) error { return errors.Join(writing("half")(w), errWrong, io.ErrUnexpectedEOF) }
	assert.ErrorIs(t, d.Put(ctx, "belfry-d", half, wanting("half")), errWrong, "half a backup")
	ended := func(w io.Writer) error {
		if err := writing("half")(w); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	assert.Error(t, d.Put(ctx, "belfry-e", ended, wanting("half")), "a backup that broke off was kept")
	if err := d.Put(ctx, "belfry-f", writing("x"), func(io.Reader) error { return errWrong }); !errors.Is(err, errWrong) {
		t.Errorf("a backup that did not read back: %v", err)
	}
	assert.Equal(t, d.Remove(ctx, "belfry-a"), nil)
	if names, err := d.List(ctx, ""); err != nil || !slices.Equal(names, []string{"belfry-b", "other-c"}) {
		t.Errorf("in the end %v, %v", names, err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	keeps(t, Folder(dir))
	info, err := os.Stat(filepath.Join(dir, "belfry-b"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A .part file of a killed process goes; that of a running one stays.
func TestLeftPartsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	f := Folder(dir)
	left, foreign := filepath.Join(dir, "belfry-x.backup.part"), filepath.Join(dir, "download.part")
	for _, path := range []string{left, foreign} {
		assert.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
	}
	err := f.Put(t.Context(), "belfry-y.backup", func(w io.Writer) error {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%v", err)
		}
		assert.Equal(t, f.Put(t.Context(), "belfry-z.backup", writing("z"), wanting("z")), nil, "beside another one")
		if err := f.Put(t.Context(), "belfry-y.backup", writing("z"), wanting("z")); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("the same name twice: %v", err)
		}
		return writing("y")(w)
	}, wanting("y"))
	assert.Equal(t, err, nil)
	if names, err := f.List(t.Context(), ""); err != nil || !slices.Equal(names, []string{"belfry-y.backup", "belfry-z.backup"}) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another program's file: %v", err)
	}
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	none := func(string) (string, bool) { return "", false }
	for target, want := range map[string]string{
		dir: "", dir + "/": "", filepath.Join(dir, "file.backup"): "file.backup",
	} {
		d, name, err := DepotAt(target, none)
		if err != nil || name != want || d.Place("x") != filepath.Join(dir, "x") {
			t.Errorf("%s: %v, %q, %v", target, d, name, err)
		}
	}
	_, _, err := DepotAt(filepath.Join(dir, "absent")+"/", none)
	assert.Error(t, err, "a folder that there is not")
	env := map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for _, target := range []string{"s3://b/some/prefix", "s3://b/some/prefix/"} {
		d, name, err := DepotAt(target, lookup)
		if err != nil || name != "" || d.Place("x") != "s3://b/some/prefix/x" {
			t.Errorf("%s: %v, %q, %v", target, d, name, err)
		}
	}
	_, _, err = DepotAt("s3://", lookup)
	assert.Error(t, err, "no bucket")
	env["AWS_ENDPOINT_URL"] = "127.0.0.1:9000"
	if _, _, err := DepotAt("s3://b", lookup); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("an endpoint without a scheme: %v", err)
	}
	env["AWS_ENDPOINT_URL"] = "http://user:hidden@127.0.0.1:9000"
	if _, _, err := DepotAt("s3://b", lookup); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("an endpoint with a password: %v", err)
	}
	if _, _, err := DepotAt("s3://b", none); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("no credentials: %v", err)
	}
}

// A real S3 server keeps backups as a folder does.
func TestBucketServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	d, _, err := DepotAt("s3://"+bucket+"/some/prefix", func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	assert.NoError(t, err)
	keeps(t, d)
}

// An upload of several parts that breaks off in a later part leaves no object.
func TestBrokenUploadServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	d, _, err := DepotAt("s3://"+bucket, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	assert.NoError(t, err)
	long := make([]byte, partBytes+1000)
	for _, failure := range []error{errWrong, io.ErrUnexpectedEOF, io.EOF} {
		err := d.Put(t.Context(), "long", func(w io.Writer) error {
			if _, err := w.Write(long); err != nil {
				return err
			}
			return failure
		}, func(io.Reader) error { return nil })
		if !errors.Is(err, failure) {
			t.Errorf("%v: %v", failure, err)
		}
	}
	if names, err := d.List(t.Context(), ""); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	write := func(w io.Writer) error { _, err := w.Write(long); return err }
	err = d.Put(t.Context(), "long", write, func(r io.Reader) error {
		got, err := io.ReadAll(r)
		if !bytes.Equal(got, long) {
			err = errors.Join(err, errWrong)
		}
		return err
	})
	assert.Equal(t, err, nil)
}

// The errors of a store name no credential.
func TestWrongSecretServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	env["AWS_SECRET_ACCESS_KEY"], env["AWS_SESSION_TOKEN"] = "hidden-secret", "hidden-token"
	d, _, err := DepotAt("s3://"+bucket, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	assert.NoError(t, err)
	_, listed := d.List(t.Context(), "")
	put := d.Put(t.Context(), "name", func(io.Writer) error { return nil }, func(io.Reader) error { return nil })
	for _, err := range []error{listed, put} {
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("with a wrong secret: %v", err)
		}
	}
}
