package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// partBytes is the length of a part of an upload, which is in memory while it is sent. A store takes 10,000 parts.
const partBytes = 32 << 20

// abortTime bounds the removal of the parts of an upload that failed.
const abortTime = 10 * time.Second

// Bucket keeps backups as objects of a bucket, under a prefix.
type Bucket struct {
	store  *s3Store
	prefix string // empty, or ends in a slash
}

// openBucket opens bucket/prefix. The environment holds the credentials, the region, and the address of a store other
// than AWS.
func openBucket(target string, lookupEnv func(string) (string, bool)) (*Bucket, error) {
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
	bucket, prefix, _ := strings.Cut(target, "/")
	if bucket == "" {
		return nil, fmt.Errorf("s3://%s names no bucket", target)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	store := newS3Store(at, bucket, key, secret, env("AWS_SESSION_TOKEN"), env("AWS_REGION", "AWS_DEFAULT_REGION"))
	return &Bucket{store: store, prefix: prefix}, nil
}

// Put uploads an object in parts, which the store makes an object only at the end, and reads it back.
func (b *Bucket) Put(ctx context.Context, name string, write func(io.Writer) error, check func(io.Reader) error) error {
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

func (b *Bucket) upload(ctx context.Context, name string, write func(io.Writer) error) error {
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
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.store.get(ctx, b.prefix+name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Place(name), err)
	}
	return object, nil
}

// List returns the names of objects under the prefix.
func (b *Bucket) List(ctx context.Context, prefix string) ([]string, error) {
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
func (b *Bucket) Remove(ctx context.Context, name string) error {
	return b.store.remove(ctx, b.prefix+name)
}

// Place returns the address of an object.
func (b *Bucket) Place(name string) string {
	return bucketScheme + path.Join(b.store.bucket, b.prefix, name)
}
