package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Tokens judges tokens of another issuer. Package oidc implements it.
type Tokens interface {
	// Caller returns the caller that a token names, and the instant from which on the token must be judged again. The
	// error is a *Refusal.
	Caller(ctx context.Context, token string) (caller *Caller, until time.Time, err error)
}

// Config names the credentials that an Authority knows.
type Config struct {
	Source       Source            // of the committed keys; required
	Root         *RootKey          // nil: none
	Certificates *CertificateRoles // nil: client certificates tell no caller
	Tokens       Tokens            // nil: none
	Now          func() time.Time  // default time.Now
}

// Authority turns the credentials of calls into their callers. Its methods may be called by many goroutines.
type Authority struct {
	cfg    Config
	keys   *lru.Cache[[sha256.Size]byte, verdict] // right keys, by the hash of their text
	tokens *lru.Cache[[sha256.Size]byte, verdict] // right tokens
	wrong  *attempts
}

// maxVerdicts bounds the remembered keys, and the remembered tokens. Only right ones are remembered.
const maxVerdicts = 8192

// MaxTokenBytes is the length of the longest token that is judged.
const MaxTokenBytes = 16 << 10

// verdict is the caller behind a right key or token. It holds until an instant, and for one version of the keys.
type verdict struct {
	caller  *Caller
	until   time.Time // zero: never ends
	version uint64
}

// New returns an authority.
func New(cfg Config) (*Authority, error) {
	if cfg.Source == nil {
		return nil, errors.New("access: no source of keys")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Authority{cfg: cfg}
	var errs [3]error
	a.keys, errs[0] = lru.New[[sha256.Size]byte, verdict](maxVerdicts)
	a.tokens, errs[1] = lru.New[[sha256.Size]byte, verdict](maxVerdicts)
	a.wrong, errs[2] = newAttempts()
	return a, errors.Join(errs[:]...)
}

// Renewed returns an authority for other credentials of the node, in place of a. It judges every key and token again. A
// key or token that a remembers as right still does not count as a guess, and the wrong credentials of the addresses
// stay counted: an attack under way neither locks a caller out through the change nor gets new attempts from it.
func (a *Authority) Renewed(cfg Config) (*Authority, error) {
	next, err := New(cfg)
	if err != nil {
		return nil, err
	}
	next.wrong = a.wrong
	ended := verdict{until: time.Unix(0, 0)}
	for _, hash := range a.keys.Keys() {
		next.keys.Add(hash, ended)
	}
	for _, hash := range a.tokens.Keys() {
		next.tokens.Add(hash, ended)
	}
	return next, nil
}

// local is the caller while the cluster demands no credentials.
var local = &Caller{Kind: KindLocal, Grants: []Grant{{Role: Admin, Namespace: AllNamespaces}}}

// Caller returns the caller behind the credentials of a call. The error is a *Refusal. While no credentials are in
// force, every caller is local, whatever credentials the call has.
func (a *Authority) Caller(ctx context.Context, c Credentials) (*Caller, error) {
	version := a.cfg.Source.KeysVersion() // before the question whether keys are in force
	switch {
	case a.Demands():
	case version == 0:
		return nil, errUnknownKeys
	default:
		return local, nil
	}
	if c.Authorization == "" {
		return a.byCertificate(c)
	}
	text, ok := bearer(c.Authorization)
	switch {
	case ok && strings.HasPrefix(text, keyPrefix):
		return a.byKey(c.Addr, text)
	case ok && a.cfg.Tokens != nil:
		return a.byToken(ctx, c.Addr, text)
	case ok:
		return nil, a.countWrong(c.Addr, &Refusal{Kind: Malformed, Detail: "the credential " + errNoKey.Error()})
	}
	return nil, a.countWrong(c.Addr, errNotBearer)
}

// Demands reports whether calls need credentials: the node has some of its own, or the cluster has keys in force.
func (a *Authority) Demands() bool {
	own := a.cfg.Root != nil || a.cfg.Certificates != nil || a.cfg.Tokens != nil
	return own || a.cfg.Source.KeysInForce()
}

// The refusals that are alike for all calls.
var (
	errMissing = &Refusal{Kind: Missing,
		Detail: "the call has no credentials: it needs an API key, as Authorization: Bearer <key>"}
	errNotBearer = &Refusal{Kind: Malformed, Detail: "the Authorization header has not the form Bearer <key>"}
	errLongToken = &Refusal{Kind: Malformed, Detail: "the token is longer than 16 KiB"}
	errUnknown   = &Refusal{Kind: Unknown, Detail: "the API key is wrong, expired or revoked"}
	errTooMany   = &Refusal{Kind: TooMany, RetryAfter: time.Second,
		Detail: "the address has sent too many wrong credentials"}
	errUnknownKeys = &Refusal{Kind: Unavailable, RetryAfter: time.Second,
		Detail: "the node does not know the keys of its cluster yet"}
)

// bearer returns the credential in an Authorization header.
func bearer(header string) (text string, ok bool) {
	scheme, text, _ := strings.Cut(header, " ")
	text = strings.Trim(text, " ")
	return text, text != "" && strings.EqualFold(scheme, "Bearer")
}

// byCertificate returns the caller of a call without a header.
func (a *Authority) byCertificate(c Credentials) (*Caller, error) {
	if c.Certificate == nil || a.cfg.Certificates == nil {
		return nil, errMissing
	}
	return a.cfg.Certificates.caller(c.Certificate), nil
}

// byKey returns the caller behind a key. A key that was right before is judged again after a change of the keys, but is
// no guess, and so it passes although its address is over the limit.
func (a *Authority) byKey(addr netip.Addr, text string) (*Caller, error) {
	if len(text) != keyChars {
		return nil, a.countWrong(addr, &Refusal{Kind: Malformed, Detail: "the credential " + errCutKey.Error()})
	}
	hash, version := Hash(text), a.cfg.Source.KeysVersion()
	v, known := a.keys.Get(hash)
	if !known || v.version != version || !v.holds(a.cfg.Now) {
		if !known && a.wrong.tooMany(addr, a.cfg.Now()) {
			return nil, errTooMany
		}
		var refusal *Refusal
		if v, refusal = a.judge(text, &hash, version); refusal != nil {
			a.keys.Remove(hash)
			return nil, a.countWrong(addr, refusal)
		}
		a.keys.Add(hash, v)
	}
	if v.caller.Kind == KindKey {
		a.cfg.Source.KeyUsed(v.caller.ID)
	}
	return v.caller, nil
}

func (v *verdict) holds(now func() time.Time) bool { return v.until.IsZero() || now().Before(v.until) }

// decoy is judged in place of a key that does not exist, so that its refusal takes no less time.
var decoy = KeyRecord{Secrets: make([]KeySecret, 1)}

// judge compares a key with the root key and the committed ones. The version was read before.
func (a *Authority) judge(text string, hash *[sha256.Size]byte, version uint64) (verdict, *Refusal) {
	id, err := ParseKey(text)
	if err != nil {
		return verdict{}, &Refusal{Kind: Malformed, Detail: "the credential " + err.Error()}
	}
	if a.cfg.Root.matches(hash) {
		return verdict{caller: a.cfg.Root.caller, version: version}, nil
	}
	if version == 0 {
		return verdict{}, errUnknownKeys
	}
	record, exists := a.cfg.Source.Key(id)
	if !exists {
		record = decoy
	}
	until, valid := record.judge(hash, a.cfg.Now())
	if !exists || !valid {
		return verdict{}, errUnknown
	}
	caller := &Caller{
		Kind: KindKey, ID: record.ID, Name: record.Name, Grants: record.Grants, Expires: record.Expires,
	}
	return verdict{caller: caller, until: until, version: version}, nil
}

// byToken returns the caller behind a token.
func (a *Authority) byToken(ctx context.Context, addr netip.Addr, token string) (*Caller, error) {
	if len(token) > MaxTokenBytes {
		return nil, a.countWrong(addr, errLongToken)
	}
	hash := Hash(token)
	v, known := a.tokens.Get(hash)
	if known && v.holds(a.cfg.Now) {
		return v.caller, nil
	}
	if !known && a.wrong.tooMany(addr, a.cfg.Now()) {
		return nil, errTooMany
	}
	caller, until, err := a.cfg.Tokens.Caller(ctx, token)
	if err != nil {
		a.tokens.Remove(hash)
		return nil, a.countWrong(addr, err)
	}
	a.tokens.Add(hash, verdict{caller: caller, until: until})
	return caller, nil
}

// countWrong counts a refused credential against its address. It returns the refusal, or the one of an address over its
// limit.
func (a *Authority) countWrong(addr netip.Addr, err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Kind == Unavailable {
		return err
	}
	if !a.wrong.add(addr, a.cfg.Now()) {
		return errTooMany
	}
	return err
}
