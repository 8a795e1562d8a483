package task

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// A queue's policy has these limits.
const (
	MaxInFlight    = 1_000_000
	MaxPerSecond   = 1_000_000
	MaxKeep        = 100 * 365 * 24 * time.Hour
	MaxBatch       = 1000
	MaxSecrets     = 2
	MinSecretBytes = 24
	MaxSecretBytes = 64
)

// Queue is a queue's policy and counts, as its operator sees them.
type Queue struct {
	Policy *fsmpb.QueuePolicy // nil: none was set
	Counts *fsmpb.QueueCounts
}

// CheckQueue checks everything about a queue's policy. Its target and retry obey the same rules as a task's.
func CheckQueue(p *fsmpb.QueuePolicy) *FieldError {
	if err := CheckName("queue", p.Queue); err != nil {
		return err
	}
	if err := checkTarget(p.Target); err != nil {
		return err
	}
	if err := checkRetry(p.Retry); err != nil {
		return err
	}
	if p.MaxInFlight > MaxInFlight {
		return &FieldError{Field: "max_in_flight", Detail: fmt.Sprintf("is %d", p.MaxInFlight),
			Limit: fmt.Sprintf("1 to %d", MaxInFlight)}
	}
	if err := checkRate("max_per_second", p.MaxPerSecond); err != nil {
		return err
	}
	if p.BatchMax > MaxBatch {
		return &FieldError{Field: "batch_max", Detail: fmt.Sprintf("is %d", p.BatchMax),
			Limit: fmt.Sprintf("0 to %d", MaxBatch)}
	}
	if p.BatchMax > 1 && p.Target.GetMethod() == http.MethodGet {
		return &FieldError{Field: "batch_max", Detail: "is for targets whose requests have a body, and target.method is GET"}
	}
	if err := checkKeep(p); err != nil {
		return err
	}
	if err := checkGroups(p); err != nil {
		return err
	}
	if err := checkQueueFollowUps(p); err != nil {
		return err
	}
	return checkSecrets(p.Secrets)
}

// checkRate checks a number of attempts that may begin a second; 0: no limit.
func checkRate(field string, perSecond float64) *FieldError {
	if perSecond >= 0 && perSecond <= MaxPerSecond { // NaN fails too
		return nil
	}
	return &FieldError{Field: field, Detail: fmt.Sprintf("is %g", perSecond),
		Limit: fmt.Sprintf("more than 0, at most %d", MaxPerSecond)}
}

func checkKeep(p *fsmpb.QueuePolicy) *FieldError {
	for _, keep := range []struct {
		field string
		ms    int64
	}{{"keep_done", p.KeepDoneMs}, {"keep_dead", p.KeepDeadMs}} {
		if keep.ms < 0 || keep.ms > MaxKeep.Milliseconds() {
			return &FieldError{Field: keep.field, Detail: "is out of range", Limit: "0s to 100 years"}
		}
	}
	return nil
}

// SecretDigest returns the part of a signing key's hash by which answers name it: four bytes of its SHA-256. They tell
// nothing about a random key.
func SecretDigest(secret []byte) []byte {
	sum := sha256.Sum256(secret)
	return sum[:4]
}

func checkSecrets(secrets [][]byte) *FieldError {
	const field = "signing.secrets"
	if n := len(secrets); n > MaxSecrets {
		return &FieldError{Field: field, Detail: fmt.Sprintf("has %d secrets", n), Limit: fmt.Sprint(MaxSecrets)}
	}
	for _, secret := range secrets {
		if n := len(secret); n < MinSecretBytes || n > MaxSecretBytes {
			return &FieldError{Field: field, Detail: fmt.Sprintf("has a secret of %d bytes", n),
				Limit: fmt.Sprintf("%d to %d bytes", MinSecretBytes, MaxSecretBytes)}
		}
	}
	return nil
}
