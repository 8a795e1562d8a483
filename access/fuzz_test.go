package access

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// FuzzAuthHeader sends any header. Only the key's own text makes a caller, and no refusal repeats the header.
func FuzzAuthHeader(f *testing.F) {
	const right = "bfy_abcdefghij_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_rdbgohi"
	const wrong = "bfy_abcdefghij_baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_gklwgcq"
	record := KeyRecord{ID: "abcdefghij", Secrets: []KeySecret{{Hash: Hash(right)}}}
	for _, seed := range []string{
		"", " ", "Bearer", "Bearer ", "Bearer " + right, "bearer  " + right + "  ", "Bearer " + wrong, "Bearer " + right[:74],
		right, "Basic " + right, "Bearer " + right + ", Bearer " + right, "Bearer good.jane", "Bearer good.", "Bearer e30.e30.",
		"Bearer \x00", "Bearer \xff\xfe", "Bearer bfy_" + strings.Repeat("_", 71), "Bearer " + strings.Repeat("a", 17<<10),
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, header string, withTokens bool) {
		cfg := Config{Source: newKeys(record)}
		if withTokens {
			cfg.Tokens = &tokens{until: time.Now().Add(time.Hour)}
		}
		a := newAuthority(t, cfg)
		credential, ok := bearer(header)
		isToken := withTokens && strings.HasPrefix(credential, "good.") && len(credential) <= MaxTokenBytes
		good := ok && (credential == right || isToken)
		for range 2 { // the second time from memory
			caller, err := a.Caller(context.Background(), Credentials{Authorization: header, Addr: home})
			if good != (err == nil) || (caller == nil) != (err != nil) {
				t.Fatalf("the header %q: %v, %v", header, caller, err)
			}
			checkRefusal(t, err, header, credential)
		}
	})
}

// checkRefusal checks that the error of a header is a refusal of a known kind and has no part of the credential.
func checkRefusal(t *testing.T, err error, header, credential string) {
	t.Helper()
	var refusal *Refusal
	if err == nil {
		return
	}
	if !errors.As(err, &refusal) || (refusal.Kind == Missing) != (header == "") || refusal.Kind == Unavailable {
		t.Fatalf("the header %q: %v", header, err)
	}
	if len(credential) > 20 && strings.Contains(err.Error(), credential[len(credential)-20:]) {
		t.Fatalf("the refusal repeats the header: %v", err)
	}
}
