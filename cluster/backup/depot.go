package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/raftgroup/durable"
)

// Depot keeps backups.
type Depot interface {
	// Put keeps the bytes that write writes under a name. It calls check with the kept bytes, and keeps none if write or
	// check fails.
	Put(ctx context.Context, name string, write func(io.Writer) error, check func(io.Reader) error) error
	// Open returns the bytes of a name.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the names of kept backups that begin with a prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	Remove(ctx context.Context, name string) error
	// Place returns the address of a name, for people.
	Place(name string) string
}

const bucketScheme = "s3://"

// DepotAt returns the depot at a target, and the name in the target. The name is empty if the target is a folder, ends
// in a slash, or is a bucket with a prefix.
func DepotAt(target string, lookupEnv func(string) (string, bool)) (Depot, string, error) {
	if strings.HasPrefix(target, bucketScheme) {
		b, err := openBucket(strings.TrimPrefix(target, bucketScheme), lookupEnv)
		return b, "", err
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return Folder(target), "", nil
	case strings.HasSuffix(target, "/"):
		return nil, "", fmt.Errorf("there is no folder %s", target)
	}
	return Folder(filepath.Dir(target)), filepath.Base(target), nil
}

// Open opens one backup: a file, or an object of a bucket.
func Open(ctx context.Context, target string, lookupEnv func(string) (string, bool)) (io.ReadCloser, error) {
	if !strings.HasPrefix(target, bucketScheme) {
		return os.Open(target)
	}
	prefix, name := splitKey(strings.TrimPrefix(target, bucketScheme))
	b, err := openBucket(prefix, lookupEnv)
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, name)
}

// splitKey splits bucket/some/key into bucket/some and key.
func splitKey(path string) (prefix, name string) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return path, ""
	}
	return path[:at], path[at+1:]
}

// Folder keeps backups as files of a folder, readable by their owner only.
type Folder string

// part is the suffix of a file while it is written.
const part = ".part"

// Put writes name.part, reads it back, and renames it to name. It first removes the .part files that killed jobs have
// left.
func (f Folder) Put(ctx context.Context, name string, write func(io.Writer) error, check func(io.Reader) error) error {
	if err := f.removeLeft(); err != nil {
		return err
	}
	aside := f.Place(name) + part
	file, err := os.OpenFile(aside, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("%s is being written by another process: %w", aside, err), file.Close())
	}
	err = fill(file, write, check)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = os.Rename(aside, f.Place(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(aside), file.Close())
	}
	return errors.Join(file.Close(), durable.SyncDir(string(f)))
}

// fill writes an empty file durably, and checks its content.
func fill(file *os.File, write func(io.Writer) error, check func(io.Reader) error) error {
	if err := errors.Join(file.Truncate(0), file.Chmod(0o600)); err != nil {
		return err
	}
	if err := write(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return check(file)
}

// removeLeft removes the .part files of other jobs that no process is writing. A file of another name may belong to
// another program, and stays.
func (f Folder) removeLeft() error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if e.Type().IsRegular() && strings.HasPrefix(name, jobPrefix) && strings.HasSuffix(name, jobSuffix+part) {
			if err := removeOrphan(f.Place(e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeOrphan removes a file unless a process holds its lock.
func removeOrphan(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		err = os.Remove(path)
	}
	return errors.Join(err, file.Close())
}

// Open opens a file.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.Place(name))
}

// List returns the names of files.
func (f Folder) List(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	var names []string
	for _, e := range entries { // sorted
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), prefix) && !strings.HasSuffix(e.Name(), part) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Remove removes a file.
func (f Folder) Remove(_ context.Context, name string) error {
	return errors.Join(os.Remove(f.Place(name)), durable.SyncDir(string(f)))
}

// Place returns the path of a file.
func (f Folder) Place(name string) string { return filepath.Join(string(f), name) }

// partBytes is the length of a part of an upload, which is in memory while it is sent. A store takes 10,000 parts.
const partBytes = 32 << 20

// abortTime bounds the removal of the parts of an upload that failed.
const abortTime = 10 * time.Second

// bucket keeps backups as objects of a bucket, under a prefix.
type bucket struct {
	store  *s3Store
	prefix string // empty, or ends in a slash
}

// openBucket opens bucket/prefix. The environment holds the credentials, the region, and the address of a store other
// than AWS.
func openBucket(target string, lookupEnv func(string) (string, bool)) (*bucket, error) {
	env := func(names ...string) string {
		for _, name := range names {
			if value, ok := lookupEnv(name); ok && value != "" {
				return value
			}
		}
		return ""
	}
	key, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")
	if key == "" || secret == "" {
		return nil, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set for s3://")
	}
	endpoint := env("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if endpoint == "" {
		endpoint = "https://" + amazonHost
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.User != nil || at.Scheme != "http" && at.Scheme != "https" {
		// Not with its value: a wrong one may hold a password.
		return nil, errors.New("AWS_ENDPOINT_URL must be a URL without a user, such as https://s3.example:9000")
	}
	name, prefix, _ := strings.Cut(target, "/")
	if name == "" {
		return nil, fmt.Errorf("s3://%s names no bucket", target)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	store := newS3Store(at, name, key, secret, env("AWS_SESSION_TOKEN"), env("AWS_REGION", "AWS_DEFAULT_REGION"))
	return &bucket{store: store, prefix: prefix}, nil
}

// Put uploads an object in parts, which the store makes an object only at the end, and reads it back.
func (b *bucket) Put(ctx context.Context, name string, write func(io.Writer) error, check func(io.Reader) error) error {
	if err := b.upload(ctx, name, write); err != nil {
		return err
	}
	kept, err := b.Open(ctx, name)
	if err == nil {
		err = errors.Join(check(kept), kept.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s was not kept well: %w", b.Place(name), err),
			b.Remove(context.WithoutCancel(ctx), name))
	}
	return nil
}

func (b *bucket) upload(ctx context.Context, name string, write func(io.Writer) error) error {
	to := &s3Upload{ctx: ctx, store: b.store, object: b.prefix + name}
	err := write(to)
	if err == nil {
		err = to.close()
	}
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	return fmt.Errorf("upload to %s: %w", b.Place(name), errors.Join(err, to.abort(ctx)))
}

// Open opens an object.
func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.store.get(ctx, b.prefix+name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Place(name), err)
	}
	return object, nil
}

// List returns the names of objects under the prefix.
func (b *bucket) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := b.store.list(ctx, b.prefix+prefix)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", b.Place(""), err)
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], b.prefix)
	}
	slices.Sort(names)
	return names, nil
}

// Remove removes an object.
func (b *bucket) Remove(ctx context.Context, name string) error {
	return b.store.remove(ctx, b.prefix+name)
}

// Place returns the address of an object.
func (b *bucket) Place(name string) string {
	return bucketScheme + path.Join(b.store.bucket, b.prefix, name)
}
