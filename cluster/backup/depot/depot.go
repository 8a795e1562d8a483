package depot

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

// At returns the depot at a target, and the name in the target. The name is empty if the target is a folder, ends in a
// slash, or is a bucket with a prefix.
func At(target string, lookupEnv func(string) (string, bool)) (Depot, string, error) {
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
