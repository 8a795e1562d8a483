package depot

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster/backup/depot/depottest"
)

// A real S3 server keeps backups as a folder does.
func TestBucketServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	d, _, err := At("s3://"+bucket+"/some/prefix", func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	keeps(t, d)
}

// An upload of several parts that breaks off in a later part leaves no object.
func TestBrokenUploadServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	d, _, err := At("s3://"+bucket, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Error(err)
	}
}

// The errors of a store name no credential.
func TestWrongSecretServer(t *testing.T) {
	env, bucket := depottest.Start(t)
	env["AWS_SECRET_ACCESS_KEY"], env["AWS_SESSION_TOKEN"] = "hidden-secret", "hidden-token"
	d, _, err := At("s3://"+bucket, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	_, listed := d.List(t.Context(), "")
	put := d.Put(t.Context(), "name", func(io.Writer) error { return nil }, func(io.Reader) error { return nil })
	for _, err := range []error{listed, put} {
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("with a wrong secret: %v", err)
		}
	}
}
