package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"github.com/belfryhq/belfry/access"
)

// Config describes an issuer of tokens.
type Config struct {
	Issuer   string           // URL; the claim iss of tokens equals it
	Audience string           // among the claim aud of tokens
	Roles    *Roles           // until UseRoles changes them
	Client   *http.Client     // default: the default client; its timeout and redirects are replaced
	Logger   *slog.Logger     // default: none
	Now      func() time.Time // default time.Now
}

func (c *Config) validate() error {
	if err := checkURL(c.Issuer); err != nil {
		return fmt.Errorf("oidc: the issuer %w", err)
	}
	switch {
	case strings.Contains(c.Issuer, "?"):
		return errors.New("oidc: the issuer has a query")
	case c.Audience == "":
		return errors.New("oidc: no audience: tokens for other services would pass")
	case c.Roles == nil:
		return errors.New("oidc: no roles")
	}
	return nil
}

// Times of the connection with the issuer, and of tokens.
const (
	firstRetry   = time.Second
	lastRetry    = 30 * time.Second
	refreshEvery = 10 * time.Minute // a key that the issuer withdraws is forgotten after this time
	leeway       = 30 * time.Second // between the clocks of the issuer and of the node
	remembered   = time.Minute      // a token is judged again after this time
	staleAfter   = 2 * refreshEvery // age beyond which keys are a fault: Run no longer refreshes them
)

// Issuer judges the tokens of one issuer. Its methods may be called by many goroutines.
type Issuer struct {
	cfg   Config
	roles atomic.Pointer[Roles]
	ready atomic.Pointer[connection] // nil until the issuer was reached
	fault atomic.Pointer[error]      // of the last attempt of Run to reach it; nil: it was reached, or is not tried yet
}

// connection is the state that the issuer's discovery document leads to.
type connection struct {
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// New returns an issuer. It uses no network: Run does.
func New(cfg Config) (*Issuer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	cfg.Client = boundedClient(cfg.Client)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	i := &Issuer{cfg: cfg}
	i.UseRoles(cfg.Roles)
	return i, nil
}

// UseRoles makes other roles count for the tokens that are judged from now on.
func (i *Issuer) UseRoles(roles *Roles) { i.roles.Store(roles) }

// Run finds the issuer and keeps its keys fresh, until the context ends. It retries without end.
func (i *Issuer) Run(ctx context.Context) {
	for retry := firstRetry; ; {
		wait := refreshEvery
		if err := i.connect(ctx); err == nil {
			retry = firstRetry
			i.fault.Store(nil)
		} else if ctx.Err() == nil {
			i.cfg.Logger.Warn("the issuer of tokens does not answer as it should", "issuer", i.cfg.Issuer,
				"has_keys", i.ready.Load() != nil, "retry_after", retry, "err", err)
			i.fault.Store(&err)
			wait, retry = retry, min(2*retry, lastRetry)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// connect reads the issuer's discovery document and its keys. After an error the earlier ones stay.
func (i *Issuer) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTimeout)
	defer cancel()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.cfg.Client), i.cfg.Issuer)
	if err != nil {
		return err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return err
	}
	if err := checkURL(document.Keys); err != nil {
		return fmt.Errorf("the address of the issuer's keys, jwks_uri, %w", err)
	}
	keys := &keySet{url: document.Keys, client: i.cfg.Client, log: i.cfg.Logger, now: i.cfg.Now,
		paced: rate.NewLimiter(rate.Every(unknownEvery), 1)}
	if err := keys.fetch(ctx); err != nil {
		return err
	}
	i.install(keys)
	return nil
}

func (i *Issuer) install(keys *keySet) {
	verifier := oidc.NewVerifier(i.cfg.Issuer, keys, &oidc.Config{
		SkipClientIDCheck:    true, // judge does it, and the times, too: go-oidc has other leeways
		SkipExpiryCheck:      true,
		SupportedSigningAlgs: names(algorithms),
	})
	if i.ready.Swap(&connection{keys: keys, verifier: verifier}) == nil {
		i.cfg.Logger.Info("the issuer of tokens was reached", "issuer", i.cfg.Issuer, "keys", len(keys.known()))
	}
}

func names(algorithms []jose.SignatureAlgorithm) (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}

// Caller returns the caller that a token names, and the instant from which on the token must be judged again. The error
// is an *access.Refusal.
func (i *Issuer) Caller(ctx context.Context, token string) (*access.Caller, time.Time, error) {
	header, err := headerOf(token)
	if err != nil {
		return nil, time.Time{}, err
	}
	c := i.ready.Load()
	if c == nil {
		return nil, time.Time{}, errAway
	}
	switch err := c.keys.learn(ctx, header.KeyID); {
	case err == nil:
	case errors.Is(err, errCrowd):
		return nil, time.Time{}, errBusy
	case errors.Is(err, errStill):
		return nil, time.Time{}, errSlow
	default:
		return nil, time.Time{}, errAway
	}
	verified, err := c.verifier.Verify(ctx, token)
	if err != nil {
		i.cfg.Logger.Debug("a token was refused", "err", err)
		return nil, time.Time{}, errForeign
	}
	return i.judge(verified)
}

// LastAnswer returns the instant at which the keys of the issuer were read last, or zero if they never were.
func (i *Issuer) LastAnswer() time.Time {
	c := i.ready.Load()
	if c == nil {
		return time.Time{}
	}
	c.keys.mu.RLock()
	defer c.keys.mu.RUnlock()
	return c.keys.read
}

// Fault returns the reason why the keys of the issuer are missing or not fresh, for people, or nil: the last attempt to
// read them has failed, or they are older than staleAfter. At the start there is no fault until the first attempt ends.
func (i *Issuer) Fault() error {
	if err := i.fault.Load(); err != nil {
		return *err
	}
	c := i.ready.Load()
	if c == nil {
		return nil
	}
	c.keys.mu.RLock()
	defer c.keys.mu.RUnlock()
	if age := i.cfg.Now().Sub(c.keys.read); c.keys.err == nil && age > staleAfter {
		return fmt.Errorf("its keys were read %v ago, and are due every %v", age.Round(time.Second), refreshEvery)
	}
	return c.keys.err
}

// The refusals that are alike for all tokens.
var (
	errNoToken = refusal(access.Malformed, "the credential is neither an API key nor a JWT with a permitted algorithm")
	errType    = refusal(access.Malformed, "the JWT is of a type that names no caller")
	errForeign = refusal(access.Unknown, "the token is not from the configured issuer, or its signature is wrong")
	errOther   = refusal(access.Unknown, "the token is not for the configured audience")
	errEarly   = refusal(access.Unknown, "the token is not valid yet")
	errLate    = refusal(access.Unknown, "the token has expired")
	errClaims  = refusal(access.Malformed, "a claim of the token has the wrong form")
	errSubject = refusal(access.Malformed, "the token needs a subject of 1 to 255 bytes")
	errAway    = &access.Refusal{Kind: access.Unavailable, RetryAfter: 5 * time.Second,
		Detail: "the node cannot judge tokens: their issuer cannot be reached now"}
	errSlow = &access.Refusal{Kind: access.Unavailable, RetryAfter: 2 * time.Second,
		Detail: "the node does not know the key of the token yet: the issuer has not answered within 2 s"}
	errBusy = &access.Refusal{Kind: access.Unavailable, RetryAfter: 2 * time.Second,
		Detail: "the node does not know the key of the token yet: too many tokens wait for the keys of the issuer"}
)

func refusal(kind access.RefusalKind, detail string) *access.Refusal {
	return &access.Refusal{Kind: kind, Detail: detail}
}

// headerOf returns the header of a token, before its signature is verified. JWTs that an issuer signs for another
// purpose have a type of their own (RFC 8725, section 3.11).
func headerOf(token string) (jose.Header, error) {
	if len(token) > access.MaxTokenBytes {
		return jose.Header{}, errNoToken
	}
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return jose.Header{}, errNoToken
	}
	header := jws.Signatures[0].Header
	kind, _ := header.ExtraHeaders[jose.HeaderType].(string)
	switch strings.TrimPrefix(strings.ToLower(kind), "application/") {
	case "", "jwt", "at+jwt":
		return header, nil
	}
	return jose.Header{}, errType
}

// judge checks the claims of a token with a good signature, and maps them.
func (i *Issuer) judge(token *oidc.IDToken) (*access.Caller, time.Time, error) {
	var payload json.RawMessage
	if err := token.Claims(&payload); err != nil {
		return nil, time.Time{}, errClaims
	}
	claims, times, err := parseClaims(payload)
	now := i.cfg.Now()
	switch {
	case err != nil:
		return nil, time.Time{}, errClaims
	case !slices.Contains(token.Audience, i.cfg.Audience):
		return nil, time.Time{}, errOther
	case !now.Before(times.expires.Add(leeway)): // a token without an expiry has a zero one
		return nil, time.Time{}, errLate
	case now.Before(times.begins.Add(-leeway)) || now.Before(times.issued.Add(-leeway)):
		return nil, time.Time{}, errEarly
	case token.Subject == "" || len(token.Subject) > 255:
		return nil, time.Time{}, errSubject
	}
	roles := i.roles.Load()
	grants, err := roles.grants(claims)
	if err != nil {
		return nil, time.Time{}, refusal(access.Malformed, err.Error())
	}
	caller := &access.Caller{Kind: access.KindToken, ID: token.Subject, Name: roles.name(claims, token.Subject),
		Grants: grants}
	return caller, earlier(times.expires.Add(leeway), now.Add(remembered)), nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// times are the times of a token. An absent one is zero.
type times struct{ begins, issued, expires time.Time }

// registered lists the claims that decide whether a token is taken.
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat"}

// parseClaims returns the claims of a token and its times. It refuses a claim that is given twice. It also refuses
// another spelling of a registered claim, such as EXP, which some parsers take for the claim itself.
func parseClaims(payload []byte) (claims map[string]any, t times, err error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber() // numbers keep their digits
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, t, errors.New("the claims are no object")
	}
	claims = map[string]any{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, t, err
		}
		text, _ := name.(string) // the name of a member always is one
		if err := checkClaim(claims, text); err != nil {
			return nil, t, err
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, t, err
		}
		claims[text] = value
	}
	for name, at := range map[string]*time.Time{"nbf": &t.begins, "iat": &t.issued, "exp": &t.expires} {
		if *at, err = timeOf(claims, name); err != nil {
			return nil, t, err
		}
	}
	return claims, t, nil
}

func checkClaim(before map[string]any, name string) error {
	if _, twice := before[name]; twice {
		return fmt.Errorf("the claim %q is given twice", name)
	}
	if slices.ContainsFunc(registered, func(r string) bool { return r != name && strings.EqualFold(r, name) }) {
		return fmt.Errorf("the claim %q is another spelling of a registered one", name)
	}
	return nil
}

// timeOf returns the time that a claim names, or zero if there is no such claim. The time must be a number.
func timeOf(claims map[string]any, name string) (time.Time, error) {
	value, there := claims[name]
	if !there {
		return time.Time{}, nil
	}
	number, _ := value.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > 1e11 {
		return time.Time{}, fmt.Errorf("%s is no time", name)
	}
	return time.Unix(int64(seconds), 0), nil
}
