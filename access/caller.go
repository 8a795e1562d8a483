package access

import (
	"slices"
	"strings"
	"time"
)

// AllNamespaces is the namespace of a grant that reaches all of them.
const AllNamespaces = "*"

// Grant allows its role within a namespace. Queues and IDs limit it further: an empty list allows all, and an entry is
// a name, or a prefix that ends in an asterisk.
type Grant struct {
	Role      Role
	Namespace string // AllNamespaces: every one
	Queues    []string
	IDs       []string
}

// Need is the demand of a call on its caller. An empty Namespace stands for a call about the whole cluster, which needs
// a grant for all namespaces. An empty Queue or ID stands for all of them: a grant that is limited there does not
// suffice. Calls about tasks without a queue of their own name the default queue.
type Need struct {
	Role      Role
	Namespace string
	Queue     string
	ID        string
	// AnyQueue and AnyID leave the check of the queue or of the id to a later one, when the call's handler knows it.
	AnyQueue, AnyID bool
	// QueuePrefix and IDPrefix make Queue and ID prefixes: the call is about every name that begins with them.
	QueuePrefix, IDPrefix bool
}

// The kinds of callers.
const (
	KindKey         = "key"
	KindRoot        = "root key"
	KindToken       = "token"       // a JWT of the configured issuer
	KindCertificate = "certificate" // of a client
	KindLocal       = "local"       // no credentials are in force, and the API listens on loopback only
)

// Caller is the identity behind a call. It is immutable.
type Caller struct {
	Kind   string
	ID     string // of the key; subject of the token or certificate
	Name   string // for people
	Grants []Grant
	// Expires is the end of the key of a caller. Zero: it never ends, or the caller has no key.
	Expires time.Time
}

// Namespace returns the namespace of the short paths: the caller's own, or else "default".
func (c *Caller) Namespace() string {
	if own := c.OwnNamespace(); own != "" {
		return own
	}
	return "default"
}

// OwnNamespace returns the only namespace that the caller's grants name, or "" if they name none, several or all.
func (c *Caller) OwnNamespace() string {
	own := ""
	for _, g := range c.Grants {
		if own == "" {
			own = g.Namespace
		}
		if g.Namespace != own {
			return ""
		}
	}
	if own == AllNamespaces {
		return ""
	}
	return own
}

// Sees reports whether the caller may know that a namespace exists: some grant reaches it.
func (c *Caller) Sees(namespace string) bool {
	return slices.ContainsFunc(c.Grants, func(g Grant) bool { return g.reaches(namespace) })
}

// Has reports whether one of the caller's grants has a role, in any namespace.
func (c *Caller) Has(role Role) bool {
	return slices.ContainsFunc(c.Grants, func(g Grant) bool { return g.Role.Includes(role) })
}

// Allows reports whether one of the caller's grants meets the need.
func (c *Caller) Allows(n Need) bool {
	return n.Role == Open || slices.ContainsFunc(c.Grants, func(g Grant) bool { return g.meets(n) })
}

func (g *Grant) reaches(namespace string) bool {
	return g.Namespace == AllNamespaces || namespace != "" && g.Namespace == namespace
}

func (g *Grant) meets(n Need) bool {
	return g.Role.Includes(n.Role) && g.reaches(n.Namespace) &&
		(n.AnyQueue || matches(g.Queues, n.Queue, n.QueuePrefix)) && (n.AnyID || matches(g.IDs, n.ID, n.IDPrefix))
}

// matches reports whether a name is among patterns, or every name with a prefix. No patterns match everything, and
// others match no empty name.
func matches(patterns []string, name string, isPrefix bool) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return name != "" && (p == name && !isPrefix || open && strings.HasPrefix(name, prefix))
	})
}
