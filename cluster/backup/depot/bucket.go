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

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// partBytes is the length of a part of an upload, which is in memory while it is sent. A store takes 10,000 parts.
const partBytes = 32 << 20

// Bucket keeps backups as objects of a bucket, under a prefix.
type Bucket struct {
	store  *minio.Client
	bucket string
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
		endpoint = "https://s3.amazonaws.com"
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.User != nil || at.Scheme != "http" && at.Scheme != "https" {
		// Not with its value: a wrong one may hold a password.
		return nil, errors.New("AWS_ENDPOINT_URL must be a URL without a user, such as https://s3.example:9000")
	}
	store, err := minio.New(at.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(key, secret, env("AWS_SESSION_TOKEN")),
		Secure: at.Scheme == "https", Region: env("AWS_REGION", "AWS_DEFAULT_REGION"),
	})
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	bucket, prefix, _ := strings.Cut(target, "/")
	if bucket == "" {
		return nil, fmt.Errorf("s3://%s names no bucket", target)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &Bucket{store: store, bucket: bucket, prefix: prefix}, nil
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
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(to)
		written <- err
		if err != nil {
			err = errBroken // an io.ErrUnexpectedEOF would end the upload as after the last byte
		}
		_ = to.CloseWithError(err) // never fails
	}()
	_, err := b.store.PutObject(ctx, b.bucket, b.prefix+name, from, -1, minio.PutObjectOptions{
		ContentType: "application/vnd.belfry.backup", PartSize: partBytes, NumThreads: 1,
	})
	_ = from.CloseWithError(errEnded) // ends write; never fails
	if failed := <-written; failed != nil && !errors.Is(failed, errEnded) {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("upload to %s: %w", b.Place(name), err)
	}
	return nil
}

var (
	errBroken = errors.New("the backup broke off")
	errEnded  = errors.New("the upload has ended")
)

// Open opens an object.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.store.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Place(name), err)
	}
	return object, nil
}

// List returns the names of objects under the prefix.
func (b *Bucket) List(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	for object := range b.store.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix}) {
		if object.Err != nil {
			return nil, fmt.Errorf("list %s: %w", b.Place(""), object.Err)
		}
		names = append(names, strings.TrimPrefix(object.Key, b.prefix))
	}
	slices.Sort(names)
	return names, nil
}

// Remove removes an object.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	return b.store.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{})
}

// Place returns the address of an object.
func (b *Bucket) Place(name string) string { return bucketScheme + path.Join(b.bucket, b.prefix, name) }
