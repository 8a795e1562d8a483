package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// The proof of a target has these limits. A token must fit into the headers of a request, of which many servers take
// 8 KiB.
const (
	MaxClaims           = 16      // of target.auth.jwt.claims
	MaxClaimsBytes      = 1 << 10 // as JSON
	MaxAudienceBytes    = 255
	MaxCertificateBytes = 100 // of the name
)

// TokenLife is the time from the making of a token to its end.
const TokenLife = 5 * time.Minute

// The algorithms that sign tokens.
const (
	EdDSA = "EdDSA" // the default
	RS256 = "RS256"
)

// ServiceClaims begins the names of the claims that tell where a task is from: belfry_namespace and belfry_queue.
const ServiceClaims = "belfry_"

// setClaims are the claims that Belfry sets.
var setClaims = [...]string{"iss", "sub", "aud", "exp", "iat"}

// checkAuth checks the proof of a target that leads to to.
func checkAuth(to *targeturl.Target, t *fsmpb.Target) *FieldError {
	const field = "target.auth"
	a := t.Auth
	switch {
	case a == nil:
		return nil
	case to.Kind != targeturl.HTTP:
		return &FieldError{Field: field, Detail: "is only for http and https targets"}
	case a.Jwt == nil && a.ClientCertificate == "":
		return &FieldError{Field: field, Detail: "names neither jwt nor client_certificate"}
	case a.ClientCertificate != "" && !to.TLS:
		return &FieldError{Field: field + ".client_certificate", Detail: "is only for https targets"}
	}
	if err := checkCertificateName(a.ClientCertificate); err != nil {
		return err
	}
	if a.Jwt == nil {
		return nil
	}
	for _, h := range t.Headers {
		if strings.EqualFold(h.Name, "authorization") {
			return &FieldError{Field: "target.headers." + h.Name,
				Detail: "and target.auth.jwt are both given: at most one of them"}
		}
	}
	return checkJWT(a.Jwt)
}

// checkCertificateName checks the name of a certificate, which is a part of a file's name.
func checkCertificateName(name string) *FieldError {
	for i, c := range name {
		if !isAlphanumeric(c) && (i == 0 || !strings.ContainsRune("._-", c)) || i >= MaxCertificateBytes {
			return &FieldError{Field: "target.auth.client_certificate", Detail: fmt.Sprintf("is %.120q", name),
				Limit: "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"}
		}
	}
	return nil
}

func checkJWT(j *fsmpb.Jwt) *FieldError {
	const field = "target.auth.jwt"
	switch n := len(j.Audience); {
	case n == 0:
		return &FieldError{Field: field + ".audience", Detail: "is absent or empty"}
	case n > MaxAudienceBytes:
		return tooLarge(field+".audience", n, MaxAudienceBytes)
	case strings.IndexFunc(j.Audience, isControl) >= 0:
		return &FieldError{Field: field + ".audience", Detail: "has a control character"}
	case j.Algorithm != "" && j.Algorithm != EdDSA && j.Algorithm != RS256:
		return &FieldError{Field: field + ".algorithm", Detail: fmt.Sprintf("is %.20q", j.Algorithm),
			Limit: EdDSA + ", " + RS256}
	}
	return checkClaims(field+".claims", j.Claims)
}

// checkClaims checks the further claims of a token. Names count without regard to case, as in some readers of JSON.
func checkClaims(field string, claims []byte) *FieldError {
	if len(claims) == 0 {
		return nil
	}
	if n := len(claims); n > MaxClaimsBytes {
		return tooLarge(field, n, MaxClaimsBytes)
	}
	d, names := json.NewDecoder(bytes.NewReader(claims)), map[string]bool{}
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') || !json.Valid(claims) {
		return &FieldError{Field: field, Detail: "is not a JSON object"}
	}
	for d.More() {
		token, _ := d.Token() // the text is valid
		name, _ := token.(string)
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return &FieldError{Field: field, Detail: "is not a JSON object"}
		}
		if err := checkClaim(field+"."+name, name, names); err != nil {
			return err
		}
	}
	if n := len(names); n > MaxClaims {
		return &FieldError{Field: field, Detail: fmt.Sprintf("has %d claims", n), Limit: fmt.Sprint(MaxClaims)}
	}
	return nil
}

// checkClaim checks the name of a claim, and adds it to the names that were there before.
func checkClaim(field, name string, names map[string]bool) *FieldError {
	for _, set := range setClaims {
		if strings.EqualFold(name, set) {
			return &FieldError{Field: field, Detail: "is set by the service and cannot be sent"}
		}
	}
	switch folded := strings.ToLower(name); {
	case strings.HasPrefix(folded, ServiceClaims):
		return &FieldError{Field: field, Detail: "is reserved: names with " + ServiceClaims + " are the service's"}
	case names[folded]:
		return &FieldError{Field: field, Detail: "is given twice"}
	default:
		names[folded] = true
	}
	return nil
}
