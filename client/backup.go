package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// BackupOptions are settings of a backup.
type BackupOptions struct {
	Rate int64 // bytes a second, at most; 0: no limit
}

// Backup describes a backup that was received whole.
type Backup struct {
	Bytes  int64
	SHA256 string // of all bytes before the backup's last piece, in hexadecimal
	Shards string // the instant of each shard, as the node's trailer has it
}

const (
	backupSum    = "Belfry-Backup-Sha256"
	backupShards = "Belfry-Backup-Shards"
)

// errNoTrailer is the error of a backup that ended without its trailers.
var errNoTrailer = errors.New("the backup broke off before its end")

// Backup writes a backup of the whole cluster to w as it arrives. It asks the next address if one cannot be reached or
// refuses, as long as no byte was written. An error means that w has no whole backup. Backup gives up after
// Config.Timeout of silence. The backup has the secrets of the queues' policies.
func (c *Client) Backup(ctx context.Context, w io.Writer, o BackupOptions) (*Backup, error) {
	path := "/v1/backup"
	if o.Rate > 0 {
		path = fmt.Sprint(path, "?rate=", o.Rate)
	}
	var failed error
	for _, node := range c.conn.nodes.given {
		made, err := c.conn.backup(ctx, node.base+path, w)
		if err == nil {
			return made, nil
		}
		failed = fmt.Errorf("GET %s from %s: %w", path, node.base, err)
		if made.Bytes > 0 || ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// backup makes one request. The result has the bytes that were written, also with an error.
func (c *conn) backup(ctx context.Context, url string, w io.Writer) (*Backup, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := newQuiet(c.cfg.Timeout, func() { cancel(errSilent) })
	defer quiet.stop()
	made := &Backup{}
	req, err := c.newRequest(ctx, http.MethodGet, url, nil)
	if err != nil {
		return made, err
	}
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return made, causeOf(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	if resp.StatusCode != http.StatusOK {
		return made, readError(resp)
	}
	made.Bytes, err = io.Copy(&quietOutput{w, quiet}, resp.Body)
	if err != nil {
		return made, causeOf(ctx, err)
	}
	made.SHA256, made.Shards = resp.Trailer.Get(backupSum), resp.Trailer.Get(backupShards)
	if made.SHA256 == "" {
		return made, errNoTrailer
	}
	return made, nil
}

// causeOf returns the cause of a context's end, if it has ended, or else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// quietOutput rests its quiet while it writes, since the writer may be slow.
type quietOutput struct {
	w     io.Writer
	quiet *quiet
}

func (o *quietOutput) Write(p []byte) (int, error) {
	o.quiet.rest(true)
	defer o.quiet.rest(false)
	return o.w.Write(p)
}
