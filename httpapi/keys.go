package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/quota"
)

// KeyRequest describes a key to be made.
type KeyRequest struct {
	Name    string
	Grants  []access.Grant
	Expires time.Time   // zero: never
	Quotas  view.Quotas // of its calls alone: MaxPayload, MaxConsumers and the rates
}

// Keys are the API keys of the cluster. Changes are in force at this node when a method returns, and at all nodes
// within a second. Errors are package task's and package access's.
type Keys interface {
	// Keys returns the keys as this node knows them, sorted by id.
	Keys() []access.KeyRecord

	// KeyLimits returns the quotas of a key, which are empty for an unknown one.
	KeyLimits(id string) quota.Limits

	// NewKey makes a key and its text, which is kept nowhere.
	NewKey(ctx context.Context, r KeyRequest) (text string, made access.KeyRecord, err error)

	// RotateKey gives a key another text. The earlier one ends after the overlap.
	RotateKey(ctx context.Context, id string, overlap time.Duration) (
		text string, key access.KeyRecord, existed bool, err error)

	// RemoveKey removes a key for ever.
	RemoveKey(ctx context.Context, id string) (existed bool, err error)
}

// keyService answers the calls about API keys, and about the caller itself.
type keyService struct {
	*core
	backend Keys
}

func (s *keyService) view(k access.KeyRecord) view.APIKey {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	v := view.APIKey{
		ID: k.ID, Name: k.Name, Grants: viewOfGrants(k.Grants), CreatedAt: k.Created.UTC(), ExpiresAt: at(k.Expires),
		LastUsedAt: at(k.LastUsed),
	}
	if quotas := view.Quotas(s.backend.KeyLimits(k.ID)); quotas != (view.Quotas{}) {
		v.Quotas = &quotas
	}
	return v
}

func viewOfGrants(grants []access.Grant) []view.Grant {
	views := make([]view.Grant, len(grants))
	for i, g := range grants {
		views[i] = view.Grant{Role: view.Role(g.Role.String()), Namespace: g.Namespace, Queues: g.Queues, IDs: g.IDs}
	}
	return views
}

// whoAmI answers the identity that the node sees behind the call.
func (s *keyService) whoAmI(c echo.Context) error {
	caller := callOf(c).caller
	return writeValue(c, http.StatusOK, view.Caller{
		Kind: caller.Kind, ID: caller.ID, Name: caller.Name, Grants: viewOfGrants(caller.Grants),
		Namespace: caller.Namespace(),
	})
}

// manages reports whether the caller may see and change a key: it administers every namespace that the key's grants
// reach. So no caller makes, or rotates to itself, a key that may do more than the caller. A key that has lost its
// grants with their namespaces belongs to the administrators of all.
func (c *call) manages(grants []access.Grant) bool {
	return len(grants) > 0 && c.firstBeyond(grants) < 0 || c.caller.Allows(access.Need{Role: access.Admin})
}

// firstBeyond returns the first grant for a namespace that the caller does not administer, or -1.
func (c *call) firstBeyond(grants []access.Grant) int {
	return slices.IndexFunc(grants, func(g access.Grant) bool {
		return !c.caller.Allows(access.Need{Role: access.Admin, Namespace: g.Namespace})
	})
}

// list answers the keys that the caller manages.
func (s *keyService) list(c echo.Context) error {
	list := []view.APIKey{}
	for _, k := range s.backend.Keys() {
		if callOf(c).manages(k.Grants) {
			list = append(list, s.view(k))
		}
	}
	return writeValue(c, http.StatusOK, map[string]any{"keys": list})
}

func (s *keyService) get(c echo.Context) error {
	key, err := s.find(c)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, s.view(key))
}

// find returns the key in the path. A key that the caller does not manage is refused as one that does not exist.
func (s *keyService) find(c echo.Context) (access.KeyRecord, error) {
	keys := s.backend.Keys()
	at := slices.IndexFunc(keys, func(k access.KeyRecord) bool { return k.ID == c.Param("id") })
	if at < 0 || !callOf(c).manages(keys[at].Grants) {
		return access.KeyRecord{}, noSuchKey()
	}
	return keys[at], nil
}

func noSuchKey() *problem { return &problem{kind: keyNotFound, detail: "no key has this id"} }

// create makes a key. Only this answer has its text.
func (s *keyService) create(c echo.Context) error {
	key, err := bodyOf(s.core, c, func(data []byte) (KeyRequest, error) { return parseKey(data, s.arrived().at) })
	if err != nil {
		return err
	}
	if at := callOf(c).firstBeyond(key.Grants); at >= 0 {
		return outside(fmt.Sprintf("grants[%d].namespace", at), "is not one that you administer")
	}
	if callOf(c).caller.Kind == access.KindLocal {
		if err := checkFirstKey(key); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	text, made, err := s.backend.NewKey(ctx, key)
	if err != nil {
		return err
	}
	callOf(c).noteMade("id", made.ID)
	c.Response().Header().Set("Location", "/v1/keys/"+made.ID)
	return s.writeText(c, made, text)
}

// checkFirstKey checks a key that a caller without credentials makes. The key puts keys in force. If it could make no
// other key, or came to an end, all callers could be locked out of the cluster.
func checkFirstKey(key KeyRequest) error {
	holder := access.Caller{Grants: key.Grants}
	if !holder.Allows(access.Need{Role: access.Admin}) {
		return &task.FieldError{
			Field: "grants", Detail: "let nobody make another key, and from the first key on every call needs one",
			Limit: `the first key is admin of the namespace "*", in all queues and ids`,
		}
	}
	if !key.Expires.IsZero() {
		return &task.FieldError{
			Field: "expires_at", Detail: "would end the only key, and from the first key on every call needs one",
			Limit: "the first key has no end; make others with it that have one",
		}
	}
	return nil
}

// writeText answers a key with its text.
func (s *keyService) writeText(c echo.Context, key access.KeyRecord, text string) error {
	return writeValue(c, http.StatusCreated, struct {
		view.APIKey
		Key      string `json:"key"`
		Outlives bool   `json:"outlives_maker,omitempty"` // the key ends later than the caller's own
	}{s.view(key), text, outlives(key.Expires, callOf(c).caller.Expires)})
}

// outlives reports whether a key that expires at an instant is valid longer than the key of the caller who gets its
// text. A caller whose key expires may keep the reach of its grants with such a key, so the answer tells of it.
func outlives(expires, maker time.Time) bool {
	return !maker.IsZero() && (expires.IsZero() || expires.After(maker))
}

// usualOverlap is how long the earlier text of a rotated key stays valid.
const usualOverlap = 24 * time.Hour

// rotate gives a key another text. Only this answer has it.
func (s *keyService) rotate(c echo.Context) error {
	overlap, err := bodyOf(s.core, c, parseOverlap)
	if err != nil {
		return err
	}
	key, err := s.find(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	text, rotated, existed, err := s.backend.RotateKey(ctx, key.ID, overlap)
	switch {
	case err != nil:
		return err
	case !existed:
		return noSuchKey()
	}
	return s.writeText(c, rotated, text)
}

// remove revokes a key.
func (s *keyService) remove(c echo.Context) error {
	if err := s.emptyBody(c); err != nil {
		return err
	}
	key, err := s.find(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	existed, err := s.backend.RemoveKey(ctx, key.ID)
	switch {
	case err != nil:
		return err
	case !existed:
		return noSuchKey()
	}
	return c.NoContent(http.StatusNoContent)
}

// parseKey reads a key to be made, and checks it.
func parseKey(data []byte, now time.Time) (KeyRequest, error) {
	var key KeyRequest
	quotas := quotaMembers(&key.Quotas)
	for _, member := range []string{"max_pending", "max_bytes", "max_queues", "weight"} { // of namespaces alone
		delete(quotas, member)
	}
	err := contract.Members{
		"name": contract.Text(&key.Name),
		"grants": contract.Into(&key.Grants, func(r *contract.Reader, full string) ([]access.Grant, error) {
			tooMany := &task.FieldError{Field: full, Detail: "has too many", Limit: fmt.Sprint("1 to ", access.MaxGrants)}
			return contract.List(r, full, access.MaxGrants, tooMany, readGrant)
		}),
		"expires_at": contract.Into(&key.Expires, func(r *contract.Reader, full string) (time.Time, error) {
			ms, err := r.Instant(full)
			return time.UnixMilli(ms), err
		}),
		"quotas": quotas.Object,
	}.Root(data, false)
	if err != nil {
		return key, err
	}
	for _, refused := range []*access.FieldError{
		access.CheckKeyName(key.Name), access.CheckGrants(key.Grants), access.CheckExpires(key.Expires, now),
	} {
		if refused != nil {
			return key, refused
		}
	}
	return key, nil
}

func readGrant(r *contract.Reader, full string) (g access.Grant, err error) {
	err = contract.Members{
		"role": contract.Into(&g.Role, func(r *contract.Reader, full string) (access.Role, error) {
			text, err := r.Text(full)
			if err != nil {
				return 0, err
			}
			role, err := access.ParseRole(text)
			if err != nil {
				return 0, &task.FieldError{Field: full, Detail: fmt.Sprintf("is %q", contract.Clip(text)),
					Limit: "read, schedule, consume, operate or admin"}
			}
			return role, nil
		}),
		"namespace": contract.Text(&g.Namespace),
		"queues":    contract.Into(&g.Queues, readPatterns),
		"ids":       contract.Into(&g.IDs, readPatterns),
	}.Object(r, full, false)
	return g, err
}

func readPatterns(r *contract.Reader, full string) ([]string, error) {
	tooMany := &task.FieldError{Field: full, Detail: "has too many", Limit: fmt.Sprint(access.MaxPatterns)}
	return contract.List(r, full, access.MaxPatterns, tooMany, (*contract.Reader).Text)
}

func parseOverlap(data []byte) (time.Duration, error) {
	overlap := usualOverlap
	err := contract.Members{"overlap": span(&overlap, 0, access.MaxOverlap, "0s to 30d")}.Optional(data)
	return overlap, err
}
