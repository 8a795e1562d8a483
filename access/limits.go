package access

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// API keys and their grants have these limits.
const (
	MaxKeys         = 1000 // of a cluster
	MaxKeyNameChars = 100
	MaxGrants       = 20 // of a key
	MaxPatterns     = 20 // of a grant's queues, and of its ids
	MaxPatternBytes = 255
	MaxOverlap      = 30 * 24 * time.Hour // between the secrets of a rotated key
)

// maxYear is the last year in which a key may expire: RFC 3339 has no form for later instants.
const maxYear = 9999

// FieldError reports a field of a key or of a grant whose value breaks a rule.
type FieldError struct {
	Field  string // as the caller wrote it: "grants[2].role"
	Detail string // a description of the fault
	Limit  string // the limit that the value breaks; empty if the fault is no limit
}

func (e *FieldError) Error() string {
	if e.Limit == "" {
		return e.Field + ": " + e.Detail
	}
	return fmt.Sprintf("%s: %s (limit %s)", e.Field, e.Detail, e.Limit)
}

// CheckKeyName checks the name of a key.
func CheckKeyName(name string) *FieldError {
	const field = "name"
	limit := fmt.Sprintf("1 to %d characters", MaxKeyNameChars)
	switch n := utf8.RuneCountInString(name); {
	case !utf8.ValidString(name):
		return &FieldError{Field: field, Detail: "is not UTF-8"}
	case n == 0:
		return &FieldError{Field: field, Detail: "is empty", Limit: limit}
	case n > MaxKeyNameChars:
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %d characters long", n), Limit: limit}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &FieldError{Field: field, Detail: "has a control character"}
	}
	return nil
}

// CheckExpires checks the instant at which a key expires. Zero stands for a key that never does.
func CheckExpires(expires, now time.Time) *FieldError {
	const field = "expires_at"
	switch {
	case expires.IsZero():
		return nil
	case !expires.After(now):
		return &FieldError{Field: field, Detail: "is not in the future"}
	case expires.UTC().Year() > maxYear:
		return &FieldError{Field: field, Detail: "is too late", Limit: fmt.Sprint("the year ", maxYear)}
	}
	return nil
}

// CheckOverlap checks for how long the former secret of a rotated key stays valid.
func CheckOverlap(overlap time.Duration) *FieldError {
	if overlap < 0 || overlap > MaxOverlap {
		return &FieldError{Field: "overlap", Detail: "is out of range", Limit: "0s to 30d"}
	}
	return nil
}

// CheckGrants checks the grants of a key.
func CheckGrants(grants []Grant) *FieldError {
	if n := len(grants); n == 0 || n > MaxGrants {
		return &FieldError{Field: "grants", Detail: fmt.Sprintf("has %d grants", n), Limit: fmt.Sprintf("1 to %d", MaxGrants)}
	}
	for i := range grants {
		if err := grants[i].check(fmt.Sprintf("grants[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (g *Grant) check(field string) *FieldError {
	if g.Role < Read || g.Role > Admin {
		return &FieldError{Field: field + ".role", Detail: g.Role.String() + " is no role: " + roleList}
	}
	if g.Namespace != AllNamespaces {
		if err := CheckNamespace(field+".namespace", g.Namespace); err != nil {
			return err
		}
	}
	if err := checkPatterns(field+".queues", g.Queues); err != nil {
		return err
	}
	return checkPatterns(field+".ids", g.IDs)
}

// CheckNamespace checks the name of one namespace. field is the caller's name for the value.
func CheckNamespace(field, name string) *FieldError {
	const limit = "1 to 63 of a-z, 0-9 and '-', which is neither first nor last"
	const letters, dash = "abcdefghijklmnopqrstuvwxyz0123456789", "-"
	n := len(name)
	switch {
	case n == 0:
		return &FieldError{Field: field, Detail: "is empty", Limit: limit}
	case n > 63:
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %d bytes long", n), Limit: limit}
	case strings.Trim(name, letters+dash) != "" || name[:1] == dash || name[n-1:] == dash:
		return &FieldError{Field: field, Detail: "is no name of a namespace", Limit: limit}
	}
	return nil
}

func checkPatterns(field string, patterns []string) *FieldError {
	if n := len(patterns); n > MaxPatterns {
		return &FieldError{Field: field, Detail: fmt.Sprintf("has %d entries", n), Limit: fmt.Sprint(MaxPatterns)}
	}
	for i, p := range patterns {
		if err := checkPattern(fmt.Sprintf("%s[%d]", field, i), p); err != nil {
			return err
		}
	}
	return nil
}

func checkPattern(field, pattern string) *FieldError {
	const allowed = "letters, digits and . _ : ~ - @, with at most one '*' at the end"
	name := strings.TrimSuffix(pattern, "*")
	switch n := len(pattern); {
	case n == 0 || n > MaxPatternBytes:
		return &FieldError{Field: field, Detail: fmt.Sprintf("is %d bytes long", n),
			Limit: fmt.Sprintf("1 to %d bytes", MaxPatternBytes)}
	case strings.ContainsFunc(name, notInNames):
		return &FieldError{Field: field, Detail: "has a character that no name has", Limit: allowed}
	}
	return nil
}

// notInNames reports whether no id and no queue has a character in its name.
func notInNames(c rune) bool {
	return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._:~-@", c)
}
