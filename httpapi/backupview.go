package httpapi

import (
	"github.com/belfryhq/belfry/internal/contract"
)

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
