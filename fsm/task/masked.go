package task

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Masked stands for the value of a header with credentials. Answers have it in place of the value, which they never
// show. In a request it keeps the stored value.
const Masked = "***"

// IsCredential reports whether the values of a target's header are hidden from all callers. header is in lower case.
func IsCredential(header string) bool { return header == "authorization" || header == "cookie" }

func isMasked(h *fsmpb.Header) bool { return h.Value == Masked && IsCredential(h.Name) }

// HasMasked reports whether a header of t asks to keep its stored value. t may be nil.
func HasMasked(t *fsmpb.Target) bool { return slices.ContainsFunc(t.GetHeaders(), isMasked) }

// KeepMasked returns t with each masked header value replaced by the value of that header in stored, which may be nil.
// It writes to neither target. A header without a value in stored stays masked: CheckMasked finds it.
func KeepMasked(t, stored *fsmpb.Target) *fsmpb.Target {
	if !HasMasked(t) {
		return t
	}
	t = proto.CloneOf(t)
	for _, h := range t.Headers {
		if !isMasked(h) {
			continue
		}
		for _, kept := range stored.GetHeaders() {
			if kept.Name == h.Name {
				h.Value = kept.Value
			}
		}
	}
	return t
}

// CheckMasked refuses a target that still has a masked header value, which means that no stored value exists.
func CheckMasked(t *fsmpb.Target) *FieldError {
	for _, h := range t.GetHeaders() {
		if isMasked(h) {
			return &FieldError{Field: "target.headers." + h.Name, Detail: "is " + Masked + ", which keeps the value that is " +
				"stored, and none is stored"}
		}
	}
	return nil
}
