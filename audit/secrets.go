package audit

import (
	"regexp"
	"strings"
)

const redacted = "[redacted]"

// secretMarks are parts of texts that have secrets in them: API keys, signing secrets, one-time tokens, Authorization
// headers, the pair of a name and a password, and keys in PEM.
var secretMarks = []string{
	"bfy_", "whsec_", "belfry-join-", "bearer ", "basic ", "digest ", "password=", "passwd=", "secret=", "token=",
	"api_key=", "apikey=", "authorization:", "cookie:", "-----begin ",
}

// secretForms are the forms of JSON Web Tokens and parts of them, and of addresses with a password.
var secretForms = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8}|://[^/?#\s]*@`)

// Clean cuts a text to maxText bytes, and replaces one that may contain a secret.
func Clean(text string) string {
	lower := strings.ToLower(text)
	for _, mark := range secretMarks {
		if strings.Contains(lower, mark) {
			return redacted
		}
	}
	if secretForms.MatchString(text) {
		return redacted
	}
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
