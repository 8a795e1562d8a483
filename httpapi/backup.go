package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/contract"
)

// Trailers of a backup.
const (
	backupSum      = "Belfry-Backup-Sha256"
	backupInstants = "Belfry-Backup-Shards"
)

// BackupSummary describes a backup that was written whole.
type BackupSummary struct {
	SHA256 string // of all bytes before the last piece, in hexadecimal
	Shards []BackupShard
}

// BackupShard is the instant of one shard in a backup.
type BackupShard struct {
	Shard uint32
	Index uint64 // in the shard's log
	CutMs int64  // the leader's clock: all that was acknowledged by then is in the backup
}

// backup streams a backup of the cluster. Errors before the first byte are answered as problems. After that byte an
// error breaks the connection off, and the trailers and the backup's last piece are missing.
func (s *Server) backup(c echo.Context) error {
	rate, err := rateOf(c.QueryParam("rate"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	s.writeUntil(c, time.Time{}) // the shards may take a while to cut, and each write has a limit of its own
	w := &backupWriter{s: s, c: c, ctx: ctx}
	summary, err := s.cfg.Backend.Backup(ctx, w, rate)
	switch {
	case err != nil && !w.began && s.closing.Err() != nil:
		return &problem{kind: notReady, detail: "this node stops", retryAfter: 1}
	case err != nil && !w.began:
		return s.readFailed(err)
	case err != nil:
		s.cfg.Logger.Warn("a backup was broken off", "bytes", w.written, "err", err)
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	h.Set(backupSum, summary.SHA256)
	h.Set(backupInstants, instantsOf(summary.Shards))
	return nil
}

// instantsOf lists the cuts of the shards for a trailer.
func instantsOf(shards []BackupShard) string {
	texts := make([]string, len(shards))
	for i, one := range shards {
		at := strings.Trim(string(contract.AppendInstant(nil, one.CutMs)), `"`)
		texts[i] = fmt.Sprintf("%d;index=%d;at=%s", one.Shard, one.Index, at)
	}
	return strings.Join(texts, ", ")
}

// backupWriter writes the body of a backup. A client that takes no byte for BatchStall is cut off.
type backupWriter struct {
	s       *Server
	c       echo.Context
	ctx     context.Context
	began   bool // a byte was written
	written int64
}

const backupPiece = 64 << 10 // bytes of one write, at most, so that a slow client can take each in time

// Write writes b in pieces.
func (w *backupWriter) Write(b []byte) (n int, err error) {
	if !w.began && w.ctx.Err() == nil {
		w.head()
	}
	for n < len(b) && err == nil {
		var m int
		m, err = w.piece(b[n:min(len(b), n+backupPiece)])
		n += m
	}
	return n, err
}

func (w *backupWriter) head() {
	w.began = true
	h := w.c.Response().Header()
	h.Set("Content-Type", "application/vnd.belfry.backup")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="belfry.backup"`)
	h.Set("Trailer", backupSum+", "+backupInstants)
	w.c.Response().WriteHeader(http.StatusOK)
}

func (w *backupWriter) piece(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	w.s.writeWithin(w.c, w.s.cfg.BatchStall)
	n, err := w.c.Response().Write(b)
	w.written += int64(n)
	if err == nil && len(b) < backupPiece { // it may take a while until more comes
		w.s.ignoreUnsupported(http.NewResponseController(w.c.Response().Writer).Flush())
	}
	// A deadline that passes between two writes would end an HTTP/2 stream.
	w.s.writeUntil(w.c, time.Time{})
	return n, err
}

const leastRate, mostRate = 1 << 10, 1 << 40

// rateOf reads a number of bytes a second. Empty: 0, which means no limit.
func rateOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < leastRate || n > mostRate {
		return 0, fieldProblem("rate", fmt.Sprintf("is %q", contract.Clip(text)),
			fmt.Sprintf("%d to %d bytes a second", leastRate, mostRate))
	}
	return n, nil
}

// BackupsView describes the backups that the nodes make on a schedule.
type BackupsView struct {
	Running    *BackupTry `json:"running,omitempty"`     // nil: none
	LastKept   *BackupTry `json:"last_kept,omitempty"`   // nil: none was kept
	LastFailed *BackupTry `json:"last_failed,omitempty"` // nil: none failed
}

// BackupTry is one try to make a backup.
type BackupTry struct {
	Node    string  `json:"node"` // id of the node that makes it
	BegunAt Instant `json:"begun_at"`
	SeenAt  Instant `json:"seen_at"`         // its end, or the last confirmation that it runs
	Place   string  `json:"place,omitempty"` // address of the backup, if it was kept
	Bytes   uint64  `json:"bytes,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Instant is an instant in Unix milliseconds.
type Instant int64

// MarshalJSON writes the instant as RFC 3339.
func (i Instant) MarshalJSON() ([]byte, error) { return contract.AppendInstant(nil, int64(i)), nil }
